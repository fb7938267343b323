-- name: meta
-- One row is a fact of the build.
select key, value
from meta
order by key;

-- name: checkpoints
-- One row is a checkpoint of the file; is_observed tells whether it has rows in observations.
with observed as (
    select distinct checkpoint
    from sequence_stats
)
select
    checkpoint, name, kind, recursions, layers_per_recursion, is_reference, attention_shared,
    parameters, training_tokens, weights_sha256, settings,
    checkpoint in (from observed) as is_observed
from checkpoints
order by not is_reference, kind = 'token', recursions, checkpoint;

-- name: policies
-- One row is a policy run for a checkpoint.
select checkpoint, policy, gate, description, seed
from policies
order by checkpoint, rowid;

-- name: dictionary
-- One row is a table or view (column_name is empty) or a column, with its comment.
with things as (
    select table_name, -1 as place, '' as column_name, '' as data_type, comment
    from duckdb_tables()
    where database_name = current_database() and not internal
    union all
    select view_name, -1, '', '', comment
    from duckdb_views()
    where database_name = current_database() and not internal
    union all
    select table_name, column_index, column_name, lower(data_type), comment
    from duckdb_columns()
    where database_name = current_database() and not internal
)
select table_name, column_name, data_type, comment
from things
order by table_name, place;

-- name: sequences
-- One row is a sequence.
select sequence, tokens, documents
from sequences
order by sequence;

-- name: sorted_losses
-- One row is the reference's loss at a scored position, smallest first.
select vanilla_loss
from positions
where vanilla_loss is not null
order by vanilla_loss;

-- name: counts
-- One row: sequences, positions, scored positions and documents of the file, and its longest sequence.
with whole as (
    select count(*) as sequences, sum(tokens)::bigint as positions, max(tokens) as longest, sum(documents)::bigint as documents
    from sequences
),
predicted as (
    select count(*) as scored
    from positions
    where next_token_id is not null
)
select sequences, positions, scored, documents, longest
from whole, predicted;
