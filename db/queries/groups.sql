-- name: group_sums
-- One row is a sequence, a depth and a decile of loss or of entropy ($scale), with the sums of the columns asked for.
-- Values are rounded to 2^-26 and added as whole numbers: the same sum in any order, on any number of threads.
select
    sequence, depth, $scale as scale,
    if($scale = 'loss', loss_decile, entropy_decile) as decile,
    count(*) as positions,
    sum((columns(lambda name: list_contains($columns, name)) * 67108864)::bigint) / 67108864 as 'sum_\0'
from scored
where checkpoint = $checkpoint
group by sequence, depth, decile
order by sequence, depth, decile;

-- name: stored_group_sums
-- One row is the same for the whole file, from the table that was filled with it.
select
    sequence, depth, scale, decile, positions,
    columns(lambda name: starts_with(name, 'sum_') and list_contains($columns, name[5:]))
from group_sums
where checkpoint = $checkpoint and scale = $scale
order by sequence, depth, decile;

-- name: block_sums
-- One row is a sequence: its positions that pass the filter, scored or not, and the sums of the depth columns asked for.
select sequence, count(*) as positions, sum(columns(lambda name: list_contains($columns, name)))::bigint as 'sum_\0'
from kept
where checkpoint = $checkpoint
group by sequence
order by sequence;
