-- How a finished file is filled from its token stream and the shards of its checkpoints.

-- name: write_create_stream
-- A row is a position of the token stream; -1 stands for NULL.
create temp table stream (sequence integer, position integer, document integer, token_id integer, next_token_id integer);

-- name: write_create_difficulty
-- A row is a position under the reference model; no rows without one.
create temp table difficulty (sequence integer, position integer, vanilla_loss float, vanilla_entropy float);

-- name: write_fill_difficulty
insert into difficulty
select sequence, position, loss_router, entropy
from read_parquet($shards);

-- name: write_fill_positions
-- Deciles are ntiles over all scored positions of the file, ties in reading order.
insert into positions by name
with loss_deciles as (
    select sequence, position, ntile(10) over (order by vanilla_loss, sequence, position) as loss_decile
    from difficulty
    where vanilla_loss is not null
),
entropy_deciles as (
    select sequence, position, ntile(10) over (order by vanilla_entropy, sequence, position) as entropy_decile
    from difficulty
    where vanilla_entropy is not null
)
select sequence, position, nullif(document, -1) as document, token_id, nullif(next_token_id, -1) as next_token_id,
    vanilla_loss, vanilla_entropy, loss_decile, entropy_decile
from stream
left join difficulty using (sequence, position)
left join loss_deciles using (sequence, position)
left join entropy_deciles using (sequence, position)
order by sequence, position;

-- name: write_fill_sequences
-- A document begins where its number differs from the position before, in the whole stream.
insert into sequences by name
with starts as (
    select sequence, document, document is distinct from lag(document) over (order by sequence, position) as begins
    from positions
)
select sequence, count(*)::integer as tokens,
    case when count(document) > 0 then count(*) filter (where begins) end as documents
from starts
group by sequence
order by sequence;

-- name: write_fill_vocab
insert into vocab by name
with counted as (
    select token_id, count(*) as occurrences
    from positions
    where next_token_id is not null
    group by token_id
)
select token_id, token, bytes, coalesce(occurrences, 0) as occurrences, is_special
from entries
left join counted using (token_id)
order by token_id;

-- name: write_fill_observations
-- A row is a position under a checkpoint, from some shards; the writer adds the benefits that its policies allow.
insert into observations by name
with shard as (
    select columns(lambda name: name not like 'ties_%')
    from read_parquet($shards)
)
select $checkpoint as checkpoint, positions.*, shard.* exclude (sequence, position)/* benefits */
from shard
join positions using (sequence, position)
order by positions.sequence, positions.position;

-- name: write_ties
-- A row is a sequence of a checkpoint's shards, with its ties where the checkpoint has a router.
select sequence, any_value(columns(lambda name: name like 'ties_%' or name = 'position'))
from read_parquet($shards)
group by sequence
order by sequence;
