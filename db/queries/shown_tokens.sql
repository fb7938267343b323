-- The figures of the pages tokens, lexical and routing, without their intervals: what a reader runs to check them.

-- name: shown_tokens
-- One row is a token type with at least $minimum occurrences under a checkpoint: how often, how deep, how hard.
select
    token_id, any_value(vocab.token) as token, count(*) as n,
    avg(depth) as mean_depth, stddev_pop(depth) as sd_depth,
    avg(vanilla_loss::double) as mean_vanilla_loss, avg(vanilla_entropy::double) as mean_vanilla_entropy, avg(benefit::double) as mean_benefit
from scored
left join vocab using (token_id)
where checkpoint = $checkpoint
group by token_id
having count(*) >= $minimum
order by mean_depth desc, token_id;

-- name: shown_lexical
-- One row is a checkpoint: what the token alone says of depth, learnt on even sequences and scored on odd ones.
with learning as (
    select checkpoint, token_id, depth, count(*) as times
    from scored
    where list_contains($checkpoints, checkpoint) and sequence % 2 = 0
    group by checkpoint, token_id, depth
),
by_token as (
    select checkpoint, token_id, sum(times * depth) / sum(times) as expected, arg_max(depth, (times, -depth::integer)) as modal
    from learning
    group by checkpoint, token_id
),
by_depth as (
    select checkpoint, depth, sum(times) as times
    from learning
    group by checkpoint, depth
),
overall as (
    select checkpoint, sum(times * depth) / sum(times) as expected, arg_max(depth, (times, -depth::integer)) as modal
    from by_depth
    group by checkpoint
),
held_out as (
    select
        scored.checkpoint, scored.depth, overall.modal as commonest,
        coalesce(by_token.expected, overall.expected) as expected,
        coalesce(by_token.modal, overall.modal) as modal
    from scored
    join overall on overall.checkpoint = scored.checkpoint
    left join by_token on by_token.checkpoint = scored.checkpoint and by_token.token_id = scored.token_id
    where sequence % 2 = 1
)
select
    checkpoint, count(*) as n,
    1 - avg((depth - expected) ** 2) / nullif(var_pop(depth), 0) as r2,
    avg((depth = modal)::integer) as modal_accuracy, avg((depth = commonest)::integer) as commonest_accuracy
from held_out
group by checkpoint
order by checkpoint;

-- name: shown_lexical_tokens
-- One row is a token type with at least $minimum occurrences under a checkpoint: how far its held-out occurrences are
-- from the mean depth learnt on even sequences, the worst first.
with learned as (
    select token_id, avg(depth) as expected
    from scored
    where checkpoint = $checkpoint and sequence % 2 = 0
    group by token_id
),
overall as (
    select avg(depth) as expected
    from scored
    where checkpoint = $checkpoint and sequence % 2 = 0
),
placed as (
    select scored.token_id, depth, sequence % 2 = 1 as is_held_out, coalesce(learned.expected, overall.expected) as expected
    from scored
    cross join overall
    left join learned on learned.token_id = scored.token_id
    where checkpoint = $checkpoint
)
select
    token_id, any_value(vocab.token) as token,
    count(*) filter (is_held_out) as n,
    any_value(expected) as expected_depth,
    avg(depth) filter (is_held_out) as mean_depth,
    avg((depth - expected) ** 2) filter (is_held_out) as squared_error
from placed
left join vocab using (token_id)
group by token_id
having count(*) >= $minimum and count(*) filter (is_held_out) > 0
order by squared_error desc, token_id;

-- name: shown_swaps
-- One row: the mean loss of a checkpoint under each policy asked for; added losses are their differences.
select count(*) as n, avg(columns(lambda name: list_contains($columns, name))::double) as 'mean_\0'
from scored
where checkpoint = $checkpoint;

-- name: shown_swaps_by
-- One row is the same at a depth under the router, or in a decile of vanilla loss or entropy ($by).
select
    case $by when 'depth' then depth when 'loss' then loss_decile else entropy_decile end as level,
    count(*) as n,
    avg(columns(lambda name: list_contains($columns, name))::double) as 'mean_\0'
from scored
where checkpoint = $checkpoint
group by level
order by level;
