-- name: passage
-- One row is a position of a sequence under one checkpoint, with its text and the columns asked for.
select
    observations.position, observations.document,
    observations.token_id, this.token, coalesce(this.is_special, false) as is_special,
    observations.next_token_id, following.token as next_token,
    columns(lambda name: list_contains($columns, name))
from observations
left join vocab as this on this.token_id = observations.token_id
left join vocab as following on following.token_id = observations.next_token_id
where observations.checkpoint = $checkpoint and observations.sequence = $sequence
order by observations.position;

-- name: passing
-- One row is a position of a sequence that passes the filter under a checkpoint.
select position
from kept
where checkpoint = $checkpoint and sequence = $sequence
order by position;
