-- Questions to begin with on the SQL page: `-- name: x`, the question, then its SQL. They name no
-- column that only some files have, and no checkpoint.

-- name: depth_by_decile
-- Are harder tokens deeper?
select checkpoint, loss_decile, count(*) as n, round(avg(depth), 3) as mean_depth
from observations
where loss_decile is not null and depth is not null
group by checkpoint, loss_decile
order by checkpoint, loss_decile;

-- name: benefit_by_entropy
-- Where does depth pay, by how unsure the reference is beforehand?
select
    checkpoint, entropy_decile, count(benefit) as n,
    round(avg(benefit), 4) as benefit, round(avg(benefit_open), 4) as benefit_open
from observations
where entropy_decile is not null and benefit is not null
group by checkpoint, entropy_decile
order by checkpoint, entropy_decile;

-- name: random_routing
-- What does it cost to choose tokens at random, and how much of that hides behind the gate?
with swapped as (
    select
        checkpoint,
        coalesce(loss_random, loss_shuffled) - loss_router as added,
        coalesce(loss_random_open, loss_shuffled_open) - loss_router_open as added_open
    from observations
)
select checkpoint, count(added) as n, round(avg(added), 4) as added_loss, round(avg(added_open), 4) as added_loss_open_gate
from swapped
where added is not null
group by checkpoint
order by checkpoint;

-- name: deepest_tokens
-- Which tokens go deepest?
with types as (
    select
        checkpoint, token_id, any_value(token) as token, sum(occurrences)::bigint as n,
        sum(sum_depth) / sum(occurrences) as mean_depth
    from token_stats
    group by checkpoint, token_id
    having sum(occurrences) >= 50 and count(sum_depth) > 0
)
select checkpoint, token_id, token, n, round(mean_depth, 3) as mean_depth
from types
qualify row_number() over (partition by checkpoint order by types.mean_depth desc, token_id) <= 10
order by checkpoint, types.mean_depth desc, token_id;

-- name: same_token
-- How often does the commonest token get each depth, and how hard is what follows?
with commonest as (
    select token_id, token
    from vocab
    where not is_special
    order by occurrences desc, token_id
    limit 1
)
select checkpoint, commonest.token, depth, count(*) as n, round(avg(vanilla_loss), 3) as vanilla_loss
from observations
join commonest using (token_id)
where next_token_id is not null and depth is not null
group by checkpoint, commonest.token, depth
order by checkpoint, depth;

-- name: hard_and_shallow
-- Which of the hardest predictions does the router give up on after one recursion?
select checkpoint, sequence, position, token, next_token, round(vanilla_loss, 2) as vanilla_loss, round(benefit, 2) as benefit
from tokens
where loss_decile = 10 and depth = 1
order by tokens.vanilla_loss desc, checkpoint, sequence, position
limit 200;

-- name: depth_by_position
-- Does depth depend on the place in the sequence?
select checkpoint, position // 16 * 16 as from_position, count(*) as n, round(avg(depth), 3) as mean_depth
from observations
where depth is not null
group by checkpoint, from_position
order by checkpoint, from_position;

-- name: gate_hides
-- At which positions does opening the gate change the benefit of depth most?
select
    checkpoint, sequence, position, token, next_token, depth,
    round(benefit, 3) as benefit, round(benefit_open, 3) as benefit_open, round(benefit_open - benefit, 3) as difference
from tokens
where benefit_open is not null
order by abs(tokens.benefit_open - tokens.benefit) desc, checkpoint, sequence, position
limit 200;

-- name: sequences_that_differ
-- In which sequences does depth follow difficulty least, and in which most?
with ranked as (
    select
        checkpoint, sequence, scored as n, round(spearman_loss, 3) as spearman_loss, round(partial_spearman_loss, 3) as beyond_token_and_position,
        row_number() over (partition by checkpoint order by sequence_stats.spearman_loss, sequence) as place,
        count(*) over (partition by checkpoint) as sequences
    from sequence_stats
    where sequence_stats.spearman_loss is not null
)
select checkpoint, sequence, n, spearman_loss, beyond_token_and_position
from ranked
where place <= 10 or place > sequences - 10
order by checkpoint, place;
