-- name: router_values
-- One row is a sequence, whether the router kept a candidate at $recursion, and one of $bins equal bins of $column
-- between low and high. For token-choice, kept means that the depth is $recursion. Sums are exact as in group_sums.
with candidates as (
    select
        sequence,
        if($is_expert, depth >= $recursion, depth = $recursion) as is_kept,
        columns(lambda name: name = $column) as value
    from kept
    where checkpoint = $checkpoint
),
bounds as (
    select if(min(value) < 0, least(-1, min(value)), 0) as low, greatest(1, max(value)) as high
    from candidates
),
binned as (
    select
        sequence, is_kept, value, low, high,
        least($bins - 1, floor((value - low) / (high - low) * $bins))::integer as bin
    from candidates, bounds
    where value is not null
)
select
    sequence, is_kept, bin, any_value(low) as low, any_value(high) as high,
    count(*) as positions,
    sum((value * 67108864)::bigint) / 67108864 as sum_value
from binned
group by sequence, is_kept, bin
order by sequence, is_kept, bin;

-- name: ties
-- One row is a sequence with its positions tied at the threshold of each recursion.
select sequence, columns(lambda name: starts_with(name, 'ties_'))
from sequence_stats
where checkpoint = $checkpoint
order by sequence;
