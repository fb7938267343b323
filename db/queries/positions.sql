-- name: scored_positions
-- One row is a scored position under a checkpoint, in order, with the columns asked for.
select sequence, columns(lambda name: list_contains($columns, name))
from scored
where checkpoint = $checkpoint
order by sequence, position;
