-- The figures that charts show, without their intervals: what a reader runs to check them.

-- name: shown_deciles
-- One row is a checkpoint and a decile of loss or of entropy ($scale): scored positions and means.
select
    checkpoint, if($scale = 'loss', loss_decile, entropy_decile) as decile, count(*) as n,
    avg(depth) as mean_depth, avg(benefit::double) as benefit, avg(benefit_open::double) as benefit_open
from scored
where list_contains($checkpoints, checkpoint) and loss_decile is not null
group by checkpoint, decile
order by checkpoint, decile;

-- name: shown_depths_by_decile
-- One row is a checkpoint, a decile of loss or of entropy ($scale) and a depth: scored positions, share of the decile, means.
with counted as (
    select
        checkpoint, if($scale = 'loss', loss_decile, entropy_decile) as decile, depth, count(*) as n,
        avg(benefit::double) as benefit, avg(benefit_open::double) as benefit_open
    from scored
    where list_contains($checkpoints, checkpoint) and loss_decile is not null
    group by checkpoint, decile, depth
)
select checkpoint, decile, depth, n, n / sum(n) over (partition by checkpoint, decile) as share, benefit, benefit_open
from counted
order by checkpoint, decile, depth;

-- name: shown_depths
-- One row is a checkpoint and a depth: scored positions, their share, mean vanilla loss and benefit.
with counted as (
    select
        checkpoint, depth, count(*) as n, avg(vanilla_loss::double) as vanilla_loss,
        avg(benefit::double) as benefit, avg(benefit_open::double) as benefit_open
    from scored
    where list_contains($checkpoints, checkpoint)
    group by checkpoint, depth
)
select checkpoint, depth, n, n / sum(n) over (partition by checkpoint) as share, vanilla_loss, benefit, benefit_open
from counted
order by checkpoint, depth;
