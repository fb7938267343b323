-- name: router_separation
-- One row is a recursion of an expert-choice checkpoint at which tokens are dropped: `area` is how often a
-- kept token has a higher router probability than a dropped one, over all pairs of candidates of the file.
with wide as (
    select depth, columns('^probability_\d+$')
    from kept
    where checkpoint = $checkpoint
),
candidates as (
    select
        depth >= replace(name, 'probability_', '')::integer as is_kept,
        replace(name, 'probability_', '')::integer as recursion,
        probability
    from (unpivot wide on columns('^probability_') into name name value probability)
),
ranked as (
    select
        recursion, is_kept,
        rank() over (partition by recursion order by probability)
            + (count(*) over (partition by recursion, probability) - 1) / 2.0 as place
    from candidates
),
counted as (
    select
        recursion,
        count(*) filter (is_kept) as tokens_kept,
        count(*) filter (not is_kept) as tokens_dropped,
        sum(place) filter (is_kept) as places
    from ranked
    group by recursion
)
select
    recursion, tokens_kept, tokens_dropped,
    (places - tokens_kept * (tokens_kept + 1) / 2.0) / (tokens_kept * tokens_dropped) as area
from counted
where tokens_kept > 0 and tokens_dropped > 0
order by recursion;

-- name: position_share
-- One row: the share of the variance of depth that lies between positions (0 .. length - 1), each with its own mean.
with expected as (
    select depth, avg(depth) over (partition by position) as by_position
    from kept
    where checkpoint = $checkpoint
)
select var_pop(by_position) / var_pop(depth) as share, count(*) as positions
from expected;
