-- name: scored_positions
-- One row is a scored position under a checkpoint, in order, with the columns asked for.
select sequence, columns(lambda name: list_contains($columns, name))
from scored
where checkpoint = $checkpoint
order by sequence, position;

-- name: stored_correlations
-- One row is a sequence of the whole file with its rank correlations.
select
    sequence, scored, spearman_loss, spearman_entropy, spearman_benefit,
    partial_spearman_loss, partial_spearman_entropy, recurring, unexplained
from sequence_stats
where checkpoint = $checkpoint
order by sequence;
