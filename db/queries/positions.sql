-- name: scored_positions
-- One row is a scored position under a checkpoint: sequence, position and the columns asked for. In any order; see query.in_order.
select columns(lambda name: name in ('sequence', 'position') or list_contains($columns, name))
from scored
where checkpoint = $checkpoint;

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
with counted as (
    select checkpoint, sequence, count(*) as positions, count(next_token_id) as scored
    from kept
    where list_contains($checkpoints, checkpoint)
    group by checkpoint, sequence
)
select checkpoint, sum(positions)::bigint as positions, sum(scored)::bigint as scored, count(*) filter (where scored > 0) as sequences
from counted
group by checkpoint
order by checkpoint;
