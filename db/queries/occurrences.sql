-- name: occurrences
-- One row is a scored position with the token $token_id, with the text of $reach tokens on either side. At most $each
-- stand for a depth, drawn by a fixed scramble of their places so that they come from all over the file; at_depth counts all.
with found as (
    select
        depth, sequence, position, vanilla_loss, loss_router, benefit,
        count(*) over (partition by depth) as at_depth,
        (sequence * 2654435761 + position * 2246822519) % 4294967296 as scrambled
    from scored
    where checkpoint = $checkpoint and token_id = $token_id
),
drawn as (
    select depth, sequence, position, vanilla_loss, loss_router, benefit, at_depth, scrambled
    from found
    qualify row_number() over (partition by depth order by scrambled, sequence, position) <= $each
),
spoken as (
    select
        drawn.depth, drawn.sequence, drawn.position, drawn.vanilla_loss, drawn.loss_router, drawn.benefit, drawn.at_depth, drawn.scrambled,
        positions.position - drawn.position as distance,
        coalesce(vocab.token, format(' [{}]', positions.token_id)) as token
    from drawn
    join positions on positions.sequence = drawn.sequence
        and positions.position between drawn.position - $reach and drawn.position + $reach
    left join vocab on vocab.token_id = positions.token_id
)
select
    depth, sequence, position,
    coalesce(string_agg(token, '' order by distance) filter (distance < 0), '') as before,
    any_value(token) filter (distance = 0) as token,
    coalesce(string_agg(token, '' order by distance) filter (distance > 0), '') as after,
    any_value(vanilla_loss) as vanilla_loss, any_value(loss_router) as loss_router, any_value(benefit) as benefit,
    any_value(at_depth) as at_depth
from spoken
group by depth, sequence, position
order by depth, any_value(scrambled), sequence, position;
