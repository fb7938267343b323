-- The fixed part of the file: a public contract. db/schema.py adds what depends on the file's largest
-- number of recursions R and on its policies: the tables positions and observations (which share
-- columns), column families of the tables below, and the views.
-- All losses, entropies and benefits are in nats. Depth counts executed recursions, 1 to R.

create table meta (
    key varchar primary key,
    value varchar
);
comment on table meta is 'One row is a fact of the build.';
comment on column meta.key is 'Name of the fact.';
comment on column meta.value is 'The fact as text; JSON where it has parts.';

create table checkpoints (
    checkpoint varchar primary key,
    name varchar not null,
    kind varchar not null check (kind in ('vanilla', 'recursive', 'expert', 'token', 'imported')),
    recursions integer,
    layers_per_recursion integer,
    is_reference boolean not null,
    attention_shared boolean,
    parameters bigint,
    training_tokens bigint,
    weights_sha256 varchar,
    settings varchar
);
comment on table checkpoints is 'One row is a checkpoint in the file.';
comment on column checkpoints.checkpoint is 'Short id, used in every other table.';
comment on column checkpoints.name is 'Experiment name.';
comment on column checkpoints.kind is 'vanilla, recursive (shared layers, no router), expert (expert-choice), token (token-choice) or imported.';
comment on column checkpoints.recursions is 'Number of recursions R; NULL for vanilla.';
comment on column checkpoints.layers_per_recursion is 'Layers of the shared block: what one depth costs. Depths of checkpoints with other blocks are not one scale.';
comment on column checkpoints.is_reference is 'True for the model whose losses and entropies are the difficulty.';
comment on column checkpoints.attention_shared is 'False where each recursion has attention weights of its own; NULL where there is one pass.';
comment on column checkpoints.parameters is 'Number of distinct parameters.';
comment on column checkpoints.training_tokens is 'Tokens it was trained on; NULL where unknown.';
comment on column checkpoints.weights_sha256 is 'SHA-256 of the weights file.';
comment on column checkpoints.settings is 'The Mixture-of-Recursions settings, as JSON.';

create table policies (
    checkpoint varchar not null,
    policy varchar not null,
    gate varchar not null check (gate in ('router', 'open')),
    description varchar,
    seed bigint,
    primary key (checkpoint, policy)
);
comment on table policies is 'One row is a policy run for a checkpoint.';
comment on column policies.checkpoint is 'Short id of the checkpoint.';
comment on column policies.policy is 'Name of the policy: which tokens each recursion keeps.';
comment on column policies.gate is 'router: its own gate multiplies the output; open: the gate is held at alpha.';
comment on column policies.description is 'What the policy does, in words.';
comment on column policies.seed is 'Seed of its random draws; NULL where it draws nothing. A policy and its open twin share one draw.';

create table vocab (
    token_id integer primary key,
    token varchar,
    bytes blob,
    occurrences bigint not null,
    is_special boolean not null
);
comment on table vocab is 'One row is a token id of the tokenizer.';
comment on column vocab.token_id is 'Token id.';
comment on column vocab.token is 'Its text as a reader should see it; bytes that are not UTF-8 alone shown like ⟨E2 80⟩. NULL without a tokenizer.';
comment on column vocab.bytes is 'Its exact bytes; NULL without a tokenizer.';
comment on column vocab.occurrences is 'How often it is the input token of a scored position of this file.';
comment on column vocab.is_special is 'True for control tokens such as end of text.';

create table sequences (
    sequence integer primary key,
    tokens integer not null,
    documents integer
);
comment on table sequences is 'One row is a sequence: a run of tokens that a model saw at once.';
comment on column sequences.sequence is 'Number of the sequence, from 0.';
comment on column sequences.tokens is 'Its length in tokens.';
comment on column sequences.documents is 'How many documents begin in it; NULL where documents are unknown.';

create table token_stats (
    checkpoint varchar not null,
    token_id integer not null,
    half utinyint not null,
    token varchar,
    occurrences bigint not null,
    sum_depth bigint,
    mean_depth double,
    sd_depth double,
    mean_vanilla_loss double,
    mean_vanilla_entropy double,
    mean_benefit double
);
comment on table token_stats is 'One row is a checkpoint, a token id and a half of the sequences, over scored positions.';
comment on column token_stats.checkpoint is 'Short id of the checkpoint.';
comment on column token_stats.token_id is 'Id of the input token.';
comment on column token_stats.half is 'Sequence number modulo 2: 0 for even sequences, 1 for odd ones.';
comment on column token_stats.token is 'Text of the token; NULL without a tokenizer.';
comment on column token_stats.occurrences is 'Scored positions with this input token in this half.';
comment on column token_stats.sum_depth is 'Sum of their depths under the router.';
comment on column token_stats.mean_depth is 'Mean of their depths.';
comment on column token_stats.sd_depth is 'Standard deviation of their depths (divisor n); 0 for a single occurrence.';
comment on column token_stats.mean_vanilla_loss is 'Mean loss of the reference at them.';
comment on column token_stats.mean_vanilla_entropy is 'Mean entropy of the reference at them.';
comment on column token_stats.mean_benefit is 'Mean benefit of depth at them.';

create table sequence_stats (
    checkpoint varchar not null,
    sequence integer not null,
    scored integer not null,
    spearman_loss double,
    spearman_entropy double,
    spearman_benefit double,
    partial_spearman_loss double,
    partial_spearman_entropy double,
    recurring integer,
    unexplained integer,
    sum_depth bigint,
    sum_squared_depth bigint,
    squared_error double,
    modal_right integer,
    commonest_right integer,
    in_largest integer
);
comment on table sequence_stats is 'One row is a checkpoint and a sequence, over scored positions.';
comment on column sequence_stats.checkpoint is 'Short id of the checkpoint.';
comment on column sequence_stats.sequence is 'Number of the sequence.';
comment on column sequence_stats.scored is 'Positions with a next token.';
comment on column sequence_stats.spearman_loss is 'Spearman correlation of depth with vanilla_loss; NULL under 20 positions or where a side is constant.';
comment on column sequence_stats.spearman_entropy is 'Spearman correlation of depth with vanilla_entropy; NULL as above.';
comment on column sequence_stats.spearman_benefit is 'Spearman correlation of depth with benefit; NULL as above.';
comment on column sequence_stats.partial_spearman_loss is 'Spearman correlation of depth with vanilla_loss after token and position effects are removed from both; NULL as above.';
comment on column sequence_stats.partial_spearman_entropy is 'Spearman correlation of depth with vanilla_entropy after token and position effects are removed from both; NULL as above.';
comment on column sequence_stats.recurring is 'Scored positions whose token occurs at least twice in the file: those of the partial correlations.';
comment on column sequence_stats.unexplained is 'Of these, positions whose depth is more than 0.05 from what token and position predict.';
comment on column sequence_stats.sum_depth is 'Sum of the depths; NULL, as the columns below, but for odd sequences, whose depths are predicted from their tokens'' depths in even ones.';
comment on column sequence_stats.sum_squared_depth is 'Sum of the squared depths.';
comment on column sequence_stats.squared_error is 'Sum of (depth - predicted depth)²: the prediction is the token''s mean depth in even sequences, for unseen tokens the mean of all.';
comment on column sequence_stats.modal_right is 'Positions at the depth that their token has most often in even sequences.';
comment on column sequence_stats.commonest_right is 'Positions at the depth that is most common in even sequences.';
comment on column sequence_stats.in_largest is 'Positions at the depth that is most common in odd sequences.';

create table group_sums (
    checkpoint varchar not null,
    sequence integer not null,
    depth utinyint,
    scale varchar not null check (scale in ('loss', 'entropy')),
    decile utinyint,
    positions bigint not null,
    sum_vanilla_loss double,
    sum_vanilla_entropy double,
    sum_benefit double,
    sum_benefit_open double
);
comment on table group_sums is 'One row is a checkpoint, a sequence, a depth and a decile of loss or of entropy, over scored positions: the sums from which means and their intervals follow. Every scored position is counted once per scale.';
comment on column group_sums.checkpoint is 'Short id of the checkpoint.';
comment on column group_sums.sequence is 'Number of the sequence.';
comment on column group_sums.depth is 'Depth of the positions under the router; NULL for vanilla.';
comment on column group_sums.scale is 'Whether decile is a loss_decile or an entropy_decile.';
comment on column group_sums.decile is 'Decile of the positions on that scale; NULL without a reference.';
comment on column group_sums.positions is 'Scored positions in the group.';
comment on column group_sums.sum_vanilla_loss is 'Sum of the reference''s losses at them, in nats. All sums add values rounded to 2^-26, so that they are exact.';
comment on column group_sums.sum_vanilla_entropy is 'Sum of the reference''s entropies at them, in nats.';
comment on column group_sums.sum_benefit is 'Sum of their benefits, in nats.';
comment on column group_sums.sum_benefit_open is 'Sum of their benefits with gates held open, in nats.';

create table digests (
    table_name varchar not null,
    checkpoint varchar,
    sequence integer,
    rows bigint not null,
    digest varchar not null
);
comment on table digests is 'One row is a part of a table with the digest of its rows, against which a check finds an altered value.';
comment on column digests.table_name is 'Name of the table.';
comment on column digests.checkpoint is 'Short id of the checkpoint the part belongs to; NULL where the table has none.';
comment on column digests.sequence is 'Number of the sequence the part belongs to; NULL where the table has none.';
comment on column digests.rows is 'Rows in the part.';
comment on column digests.digest is 'Digest of the rows in their order.';
