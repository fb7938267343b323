"""Every measure of the study from one file, as frames: the same answers for pages, terminal and notebook."""

from collections.abc import Mapping, Sequence

import pandas as pd

from db import cautions, deciles, depths, difficulty, groups, lexical, query, router, rules, swaps, tokens
from db.checks import Checks
from db.correlation import largest_rho
from db.errors import UserError
from db.file import File
from db.intervals import Estimate, ratio


class Study(File):
    """The measures of analysis.md, each under any filter.

    `where` is, in every method, an SQL condition on `observations`. A filter never redefines deciles,
    unless `within` asks for deciles of the kept positions. Intervals are 95% bootstrap intervals over
    sequences; they are NaN under 10 sequences and `reliable` is False under 30.
    """

    def correlations(self, checkpoint: str, where: str | None = None) -> pd.DataFrame:
        """One row is a rank correlation of depth within sequences, see db/difficulty.py.

        Columns: measure, value, low, high, n (positions), sequences (used), left_out (sequences without
        one), reliable, squared (the share of rank variance), largest (what the depth shares allow).
        """
        stats = self.by_sequence(checkpoint, where)
        share = depths.share(self.groups(checkpoint, ["benefit"], where=where)).value
        frame = pd.DataFrame([each.row(measure=measure) for measure, each in difficulty.estimates(stats).items()])
        frame["left_out"] = len(stats) - frame["sequences"]
        return frame.assign(squared=frame["value"] ** 2, largest=largest_rho(share))

    def by_sequence(self, checkpoint: str, where: str | None = None) -> pd.DataFrame:
        """One row is a sequence with its correlations; see difficulty.by_sequence."""
        self.checkpoint(checkpoint)
        if where is None:
            return self.frame("stored_correlations", checkpoint=checkpoint)
        return difficulty.by_sequence(self.rows(checkpoint, difficulty.COLUMNS, where), self.counts["longest"])

    def sensitivity(self, checkpoint: str, where: str | None = None) -> pd.DataFrame:
        """One row is a partial correlation computed another way; see difficulty.sensitivity."""
        return difficulty.sensitivity(self.rows(checkpoint, difficulty.COLUMNS, where), self.counts["longest"])

    def depths(self, checkpoint: str, where: str | None = None) -> pd.DataFrame:
        """One row is a depth; see depths.table."""
        return depths.table(self.groups(checkpoint, ["vanilla_loss", "benefit", "benefit_open"], where=where))

    def deciles(self, checkpoint: str, by: str = "loss", where: str | None = None, within: bool = False, figures: Sequence[str] | None = None) -> pd.DataFrame:
        """One row is a decile of vanilla loss or entropy (`by`), with the `figures` asked for (None: all); see deciles.table."""
        figures = deciles.FIGURES if figures is None else figures
        sums = [name for name in deciles.MEANS if name in figures] or ["vanilla_loss"]  # a query has to sum something
        return deciles.table(self.groups(checkpoint, sums, by, where, within), figures)

    def depths_by_decile(self, checkpoint: str, by: str = "loss", where: str | None = None, within: bool = False, figures: Sequence[str] | None = None) -> pd.DataFrame:
        """One row is a decile and a depth, with the `figures` asked for (None: all); see depths.by_decile."""
        figures = depths.FIGURES if figures is None else figures
        sums = [name for name in depths.BENEFITS if name in figures] or ["vanilla_loss"]
        return depths.by_decile(self.groups(checkpoint, sums, by, where, within), figures)

    def lexical(self, checkpoint: str, where: str | None = None, others: bool = True) -> pd.DataFrame:
        """One row is a split of the sequences, even → odd and the `others`, and a figure; see lexical.table."""
        return lexical.table(self.held_out(checkpoint, where), self.rows(checkpoint, ["token_id", "depth"], where) if others else None)

    def held_out(self, checkpoint: str, where: str | None = None) -> pd.DataFrame:
        """One row is an odd sequence: how well the token identities of even ones predict its depths; see lexical.predicted."""
        self.checkpoint(checkpoint)
        if where is None:
            return self.frame("stored_held_out", checkpoint=checkpoint)
        with self._kept(where, checkpoint) as cursor:
            return lexical.even_to_odd(cursor, checkpoint, self.recursions(checkpoint))

    def lexical_tokens(self, checkpoint: str, minimum: int | None = None, where: str | None = None) -> pd.DataFrame:
        """One row is a token type, the one that identity explains worst first; see lexical.by_token."""
        self.checkpoint(checkpoint)
        minimum = self.default_minimum() if minimum is None else minimum
        return lexical.by_token(self.frame("token_sums", where, checkpoint=checkpoint, halves=True), self._remembered("token_text"), minimum)

    def tokens(self, checkpoint: str, minimum: int | None = None, where: str | None = None) -> pd.DataFrame:
        """One row is a token type with at least `minimum` occurrences (None: scaled to the file), deepest first; see tokens.table."""
        recursions = self.recursions(checkpoint)
        minimum = self.default_minimum() if minimum is None else minimum
        if where is None:
            columns = [f"occurrences_depth_{depth}" for depth in range(1, recursions + 1)]
            spread = self.frame("stored_token_sums", checkpoint=checkpoint, minimum=minimum, columns=columns)
        else:
            spread = tokens.spread(self.frame("token_sums", where, checkpoint=checkpoint, halves=False), ["token_id"], recursions)
        return tokens.table(spread, self._remembered("token_text"), minimum)

    def occurrences(self, checkpoint: str, token_id: int, each: int = 10, reach: int = 12, where: str | None = None) -> pd.DataFrame:
        """One row is a scored occurrence of a token, at most `each` a depth, shallowest first.

        depth, sequence, position, before, token and after (texts; `reach` tokens on either side),
        vanilla_loss, loss_router and benefit in nats, at_depth (how many occurrences have this depth).
        """
        self.checkpoint(checkpoint)
        return self.frame("occurrences", where, checkpoint=checkpoint, token_id=int(token_id), each=each, reach=reach)

    @property
    def texts(self) -> pd.Series:
        """Text of every token id that the file knows, NULL where it has none."""
        return self._remembered("token_text").set_index("token_id")["token"]

    def default_minimum(self) -> int:
        """The least occurrences of a token type in a list where none is asked for, scaled to the file."""
        return tokens.default_minimum(self.counts["scored"])

    def swaps(self, checkpoint: str, where: str | None = None) -> pd.DataFrame:
        """One row is a policy run; see swaps.table."""
        policies = self.policies_of(checkpoint)
        sums = self.groups(checkpoint, [f"loss_{policy}" for policy in policies], where=where)
        return swaps.table(sums, self.blocks(checkpoint, where), policies, self.recursions(checkpoint))

    def swaps_by(self, checkpoint: str, by: str, where: str | None = None, within: bool = False) -> pd.DataFrame:
        """One row is a policy and a `depth`, a `loss` decile or an `entropy` decile (`by`); see swaps.table_by."""
        policies = self.policies_of(checkpoint)
        sums = self.groups(checkpoint, [f"loss_{policy}" for policy in policies], "entropy" if by == "entropy" else "loss", where, within)
        return swaps.table_by(sums, policies, "depth" if by == "depth" else "decile")

    def router(self, checkpoint: str, quantity: str = "probability", where: str | None = None) -> router.Router:
        """What the router gives to kept and to dropped tokens: its probability or its margin (`quantity`); see router.Router.

        All positions that pass, scored or not: the router selects among all. Token-choice keeps a token
        at the recursion that it chose as its depth.
        """
        if quantity not in router.QUANTITIES:
            raise UserError(f"The router has a probability and a margin, not {quantity!r}.")
        is_expert = self.checkpoint(checkpoint)["kind"] == "expert"
        fixed = {"checkpoint": checkpoint, "is_expert": is_expert, "bins": router.BINS}
        found = {
            recursion: self.frame("router_values", where, column=f"{quantity}_{recursion}", recursion=recursion, **fixed)
            for recursion in range(1, self.recursions(checkpoint) + 1)
        }
        return router.router(found, self.frame("ties", checkpoint=checkpoint))

    def checks(self, checkpoint: str, where: str | None = None, texts: difficulty.Texts | None = None) -> Checks:
        """The figures that the reading rules judge. texts: what checkpoints that are asked about together share."""
        stats, even = self._judged(checkpoint, where, texts)
        correlations = difficulty.estimates(stats)
        policy = swaps.random_policy(self.policies_of(checkpoint))
        losses = [f"loss_{name}" for name in (policy, "router") if policy]
        figures = {
            "spearman_loss": correlations["spearman_loss"],
            "partial_spearman_loss": correlations["partial_spearman_loss"],
            "lexical_r2": lexical.fit(even).r2,
            "routing_added_loss": swaps.added_loss(self.groups(checkpoint, losses, where=where), [policy])[0] if policy else None,
        }
        return Checks(checkpoint, self.checkpoint(checkpoint)["kind"], policy, where, int(stats["scored"].sum()), len(stats), figures)

    def _judged(self, checkpoint: str, where: str | None, texts: difficulty.Texts | None) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Correlations with loss by sequence, and the held-out sequences of the lexical fit: stored, or from the rows."""
        if where is None:
            return self.by_sequence(checkpoint), self.held_out(checkpoint)
        rows = self.rows(checkpoint, ["token_id", "depth", "vanilla_loss"], where)
        return difficulty.by_sequence(rows, self.counts["longest"], against=["loss"], texts=texts), self.held_out(checkpoint, where)

    def rules(self, checkpoint: str, where: str | None = None, thresholds: Mapping[str, float] | None = None) -> list[rules.Rule]:
        """The reading rules with their verdicts; `thresholds` are those moved, see rules.THRESHOLDS."""
        return self.checks(checkpoint, where).rules(thresholds)

    def mean_loss(self, checkpoint: str) -> Estimate:
        """Mean loss in nats over the whole file, under its own router; that of the reference needs no observations."""
        if checkpoint == self.reference:
            losses = self.frame("reference_losses")
            return ratio(losses["sum_vanilla_loss"], losses["positions"])
        return swaps.mean_loss(self.groups(checkpoint, ["loss_router"]), ["router"])[0]

    def cautions(self, checkpoints: Sequence[str] | None = None, where: str | None = None, kept: pd.DataFrame | None = None) -> list[str]:
        """One sentence for each thing a reader of these checkpoints' figures (None: all) should know. kept: what passes, where it is at hand."""
        reported = self.observed if checkpoints is None else list(checkpoints)
        counts = (self.kept(where) if kept is None else kept).set_index("checkpoint")["sequences"].reindex(reported, fill_value=0)
        return cautions.cautions(self.checkpoints, reported, int(counts.min()) if reported else 0, self.is_range_restricted(where))

    def kept(self, where: str | None = None) -> pd.DataFrame:
        """One row is a checkpoint of which positions pass the filter: checkpoint, positions, scored, sequences (with a scored one)."""
        if where is None or self.tells_checkpoints_apart(where) or not self.observed:
            return self.frame("kept_counts", where, checkpoints=self.observed)
        found = self.frame("kept_counts", where, checkpoints=self.observed[:1])
        return pd.concat([found.assign(checkpoint=checkpoint) for checkpoint in sorted(self.observed)], ignore_index=True)

    def reference_losses(self, checkpoints: Sequence[str], where: str | None = None) -> pd.DataFrame:
        """One row is a sequence: positions and sum_vanilla_loss of the reference; under a filter, of positions that pass it for any of the checkpoints."""
        if where is None:
            return self.frame("reference_losses")
        return self.frame("kept_reference_losses", where, checkpoints=list(checkpoints))

    # --- rows and sums that measures are made of -----------------------------------------------

    def rows(self, checkpoint: str, columns: Sequence[str], where: str | None = None) -> pd.DataFrame:
        """One row is a scored position of a checkpoint, in order: sequence, position and the columns asked for."""
        self.checkpoint(checkpoint)
        return query.in_order(self.frame("scored_positions", where, checkpoint=checkpoint, columns=list(columns)))

    def groups(
        self, checkpoint: str, columns: Sequence[str], scale: str = "loss", where: str | None = None, within: bool = False
    ) -> groups.Groups:
        """Sums of the columns by sequence, depth and decile on a scale (`loss` or `entropy`)."""
        if scale not in ("loss", "entropy"):
            raise UserError(f"Deciles are by loss or by entropy, not by {scale!r}.")
        recursions = self.recursions(checkpoint)
        name = "group_sums" if where or within else "stored_group_sums"
        return groups.from_rows(self.frame(name, where, within, checkpoint=checkpoint, scale=scale, columns=list(columns)), recursions)

    def blocks(self, checkpoint: str, where: str | None = None) -> pd.DataFrame:
        """One row is a sequence: positions that pass, scored or not, and sum_<depth column> of every policy run."""
        columns = [swaps.depth_column(policy) for policy in self.policies_of(checkpoint)]
        return self.frame("block_sums", where, checkpoint=checkpoint, columns=columns)
