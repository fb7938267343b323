-- name: scored_positions
-- One row is a scored position under a checkpoint, in order, with the columns asked for.
select sequence, columns(lambda name: list_contains($columns, name))
from scored
where checkpoint = $checkpoint
order by sequence, position;

-- name: stored_correlations
-- One row is a sequence with scored positions, with its rank correlations over the whole file.
select
    sequence, scored, spearman_loss, spearman_entropy, spearman_benefit,
    partial_spearman_loss, partial_spearman_entropy, recurring, unexplained
from sequence_stats
where checkpoint = $checkpoint and scored > 0
order by sequence;

-- name: stored_held_out
-- One row is an odd sequence: its depths against their prediction from token identity, fitted on even sequences.
select sequence, scored, sum_depth, sum_squared_depth, squared_error, modal_right, commonest_right, in_largest
from sequence_stats
where checkpoint = $checkpoint and squared_error is not null
order by sequence;

-- name: reference_losses
-- One row is a sequence: its positions with a loss of the reference, and their sum. Sums are exact as in group_sums.
select sequence, count(*) as positions, sum((vanilla_loss * 67108864)::bigint) / 67108864 as sum_vanilla_loss
from positions
where vanilla_loss is not null
group by sequence
order by sequence;

-- name: kept_reference_losses
-- One row is the same over the positions that pass the filter for at least one of $checkpoints.
with passed as (
    select distinct sequence, position, vanilla_loss
    from scored
    where list_contains($checkpoints, checkpoint) and vanilla_loss is not null
)
select sequence, count(*) as positions, sum((vanilla_loss * 67108864)::bigint) / 67108864 as sum_vanilla_loss
from passed
group by sequence
order by sequence;

-- name: kept_counts
-- One row is a checkpoint of $checkpoints with positions that pass the filter: how many, how many of them are scored, in how many sequences.
select
    checkpoint,
    count(*) as positions,
    count(next_token_id) as scored,
    count(distinct sequence) filter (where next_token_id is not null) as sequences
from kept
where checkpoint in (select unnest($checkpoints))
group by checkpoint
order by checkpoint;
