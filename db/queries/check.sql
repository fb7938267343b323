-- What must hold in a finished file. A row of each is a place where it does not; no rows: it holds.

-- name: check_positions_without_gaps
-- A row is a sequence whose positions are not 0 .. tokens - 1, once each.
select format('table positions, sequence {}: {} positions from {} to {}, {} expected',
    sequence, count(position), ifnull(min(position)::varchar, 'NULL'), ifnull(max(position)::varchar, 'NULL'), ifnull(any_value(tokens)::varchar, 'NULL')) as place
from sequences
full join positions using (sequence)
group by sequence
having count(position) <> coalesce(any_value(tokens), -1) or min(position) <> 0
    or max(position) <> any_value(tokens) - 1 or count(distinct position) <> count(position)
order by sequence;

-- name: check_next_tokens
-- A row is a position whose next_token_id is not the token that follows it.
with neighbours as (
    select sequence, position, next_token_id, lead(token_id) over (partition by sequence order by position) as follows
    from positions
)
select format('table positions, sequence {}, position {}: next_token_id {} where {} follows',
    sequence, position, ifnull(next_token_id::varchar, 'NULL'), ifnull(follows::varchar, 'NULL')) as place
from neighbours
where next_token_id is distinct from follows
order by sequence, position;

-- name: check_tokens_in_vocabulary
-- A row is a position whose token is not in vocab.
select format('table positions, sequence {}, position {}: token_id {} is not in vocab', sequence, position, token_id) as place
from positions
anti join vocab using (token_id)
order by sequence, position;

-- name: check_vanilla_nulls
-- A row is a position whose vanilla columns are NULL where they should not be, or the other way round.
with reference as (select count(*) > 0 as present from checkpoints where is_reference)
select format('table positions, sequence {}, position {}: vanilla_loss, vanilla_entropy and deciles should {}be NULL',
    sequence, position, case when present and next_token_id is not null then 'not ' else '' end) as place
from positions, reference
where (present and next_token_id is not null) <> (vanilla_loss is not null)
    or (vanilla_loss is null) <> (vanilla_entropy is null)
    or (vanilla_loss is null) <> (loss_decile is null)
    or (vanilla_loss is null) <> (entropy_decile is null)
order by sequence, position;

-- name: check_deciles
-- A row is a position whose decile is not its ntile over all scored positions of the file.
with ranked as (
    select sequence, position, loss_decile, entropy_decile,
        ntile(10) over (order by vanilla_loss, sequence, position) as loss,
        ntile(10) over (order by vanilla_entropy, sequence, position) as entropy
    from positions
    where vanilla_loss is not null
)
select format('table positions, sequence {}, position {}: loss_decile {} where {} is due, entropy_decile {} where {} is due',
    sequence, position, ifnull(loss_decile::varchar, 'NULL'), loss, ifnull(entropy_decile::varchar, 'NULL'), entropy) as place
from ranked
where loss_decile <> loss or entropy_decile <> entropy
order by sequence, position;

-- name: check_documents
-- A row is a sequence whose number of documents is not what its positions say.
with starts as (
    select sequence, document, document is distinct from lag(document) over (order by sequence, position) as begins
    from positions
),
counted as (
    select sequence, case when count(document) > 0 then count(*) filter (where begins) end as begun
    from starts
    group by sequence
)
select format('table sequences, sequence {}: documents {} where {} begin',
    sequence, ifnull(documents::varchar, 'NULL'), ifnull(begun::varchar, 'NULL')) as place
from sequences
full join counted using (sequence)
where documents is distinct from begun
order by sequence;

-- name: check_occurrences
-- A row is a token whose occurrences are not those of the scored positions.
with counted as (
    select token_id, count(*) as found
    from positions
    where next_token_id is not null
    group by token_id
)
select format('table vocab, token_id {}: occurrences {} where {} are counted', token_id, occurrences, coalesce(found, 0)) as place
from vocab
left join counted using (token_id)
where occurrences <> coalesce(found, 0)
order by token_id;

-- name: check_one_row_per_position
-- A row is a checkpoint and position that observations hold not exactly once.
with due as (
    select distinct policies.checkpoint, sequence, position
    from policies, positions
),
found as (
    select checkpoint, sequence, position, count(*) as times
    from observations
    group by checkpoint, sequence, position
)
select format('table observations, checkpoint {}, sequence {}, position {}: {} rows where {} is due', checkpoint, sequence, position,
    coalesce(times, 0), case when due.checkpoint is null then 0 else 1 end) as place
from due
full join found using (checkpoint, sequence, position)
where times is distinct from 1 or due.checkpoint is null
order by checkpoint, sequence, position;

-- name: check_copied_columns
-- A row is an observation whose copy of a position's columns differs from the position.
select format('table observations, checkpoint {}, sequence {}, position {}: its columns of positions differ from table positions', checkpoint, sequence, position) as place
from observations
join positions using (sequence, position)
where (observations.document, observations.token_id, observations.next_token_id, observations.vanilla_loss, observations.vanilla_entropy,
        observations.loss_decile, observations.entropy_decile)
    is distinct from (positions.document, positions.token_id, positions.next_token_id, positions.vanilla_loss, positions.vanilla_entropy,
        positions.loss_decile, positions.entropy_decile)
order by checkpoint, sequence, position;

-- name: check_sorted_rows
-- A row is an observation that does not stand in the order of checkpoint, sequence and position.
with neighbours as (
    select checkpoint, sequence, position,
        lag((checkpoint, sequence, position)) over (order by rowid) as before
    from observations
)
select format('table observations, checkpoint {}, sequence {}, position {}: not in order', checkpoint, sequence, position) as place
from neighbours
where before >= (checkpoint, sequence, position)
order by checkpoint, sequence, position;

-- name: check_facts
-- A row is a fact of the build.
select key, value
from meta
order by key;

-- name: check_checkpoints
-- A row is a checkpoint with the hash of its weights, and whether it has observations.
select checkpoint, name, weights_sha256, checkpoint in (select checkpoint from policies) as observed
from checkpoints
order by checkpoint;

-- name: check_sample
-- A row is a position of a few sequences with what the checkpoint's own router did there.
select sequence, position, token_id, depth, loss_router, entropy
from observations
where checkpoint = $checkpoint and sequence between $first and $last
order by sequence, position;
