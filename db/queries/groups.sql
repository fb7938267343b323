-- name: group_sums
-- One row is a sequence, a depth and a decile of loss or of entropy, with the sums of the columns asked for.
-- Values are rounded to 2^-26 and added as whole numbers: the same sum in any order, on any number of threads.
select
    sequence, depth,
    if(grouping(loss_decile) = 0, 'loss', 'entropy') as scale,
    if(grouping(loss_decile) = 0, loss_decile, entropy_decile) as decile,
    count(*) as positions,
    sum((columns(lambda name: list_contains($columns, name)) * 67108864)::bigint) / 67108864 as 'sum_\0'
from scored
where checkpoint = $checkpoint
group by grouping sets ((sequence, depth, loss_decile), (sequence, depth, entropy_decile))
order by scale, sequence, depth, decile;

-- name: stored_group_sums
-- The same rows for the whole file, from the table that was filled with them.
select
    sequence, depth, scale, decile, positions,
    columns(lambda name: starts_with(name, 'sum_') and list_contains($columns, name[5:]))
from group_sums
where checkpoint = $checkpoint
order by scale, sequence, depth, decile;
