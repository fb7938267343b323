-- name: token_sums
-- One row is a token id, a half of the sequences ($halves; else all are in half 0) and a depth, with the sums from which
-- token statistics follow. Values are rounded to 2^-26 and added as whole numbers, as in group_sums.
select
    token_id, if($halves, sequence % 2, 0)::utinyint as half, depth,
    count(*) as occurrences,
    sum((vanilla_loss * 67108864)::bigint) / 67108864 as sum_vanilla_loss,
    sum((vanilla_entropy * 67108864)::bigint) / 67108864 as sum_vanilla_entropy,
    sum((benefit * 67108864)::bigint) / 67108864 as sum_benefit
from scored
where checkpoint = $checkpoint
group by token_id, half, depth
order by token_id, half, depth;

-- name: learnt_cells
-- One row is a token and a depth that meet on even sequences: their cell, token_id * $depths + depth, and how often.
select (token_id * $depths + depth)::integer as cell, count(*) as n
from scored
where checkpoint = $checkpoint and sequence % 2 = 0 and depth is not null
group by cell
order by cell;

-- name: held_out_cells
-- One row is a scored position of an odd sequence: its sequence, and the cell of its token and depth as above. In any order.
select sequence, (token_id * $depths + depth)::integer as cell
from scored
where checkpoint = $checkpoint and sequence % 2 = 1 and depth is not null;

-- name: stored_token_sums
-- One row is a token id of the whole file with at least $minimum occurrences, from the stored statistics of its halves.
select
    token_id,
    sum(occurrences)::bigint as occurrences,
    sum(mean_vanilla_loss * occurrences) as sum_vanilla_loss,
    sum(mean_vanilla_entropy * occurrences) as sum_vanilla_entropy,
    sum(mean_benefit * occurrences) as sum_benefit,
    sum(columns(lambda name: list_contains($columns, name)))::bigint as '\0'
from token_stats
where checkpoint = $checkpoint
group by token_id
having sum(occurrences) >= $minimum
order by token_id;

-- name: token_text
-- One row is a token id with its text.
select token_id, token, is_special
from vocab
order by token_id;
