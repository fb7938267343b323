"""The check of a file beside the page, and what a citation of it says."""

import json

import pandas as pd
import streamlit as st

from db.errors import UserError
from db.limits import Child
from db.study import Study
from pages.parts.work import Work

CHECK_SECONDS = 600.0
PAPER = """@article{bae2025mixture,
  title   = {Mixture-of-Recursions: Learning Dynamic Recursive Depths for Adaptive Token-Level Computation},
  author  = {Bae, Sangmin and Kim, Yujin and Bayat, Reza and Kim, Sungnyun and Ha, Jiyoun and Schuster, Tal and
             Fisch, Adam and Harutyunyan, Hrayr and Ji, Ziwei and Courville, Aaron and Yun, Se-Young},
  journal = {arXiv preprint arXiv:2507.10524},
  year    = {2025}
}"""


def check(study: Study) -> Work | None:
    """The check of this version of the file, where this session has begun it."""
    begun = st.session_state.get("check")
    return begun[1] if begun and begun[0] == (study.path, study.signature) else None


def begin(study: Study) -> None:
    """Begins the check of this version of the file, in a process of its own."""
    child = Child("db.findings", [str(study.path)])

    def findings() -> list[str]:
        code, output = child.result(seconds=CHECK_SECONDS)
        if code:
            raise UserError("The check was stopped." if code < 0 else f"The check did not come to its end (exit code {code}).")
        return json.loads(output)

    st.session_state["check"] = (study.path, study.signature), Work(findings, child.stop)


def citation(study: Study) -> str:
    """What tells the file, its text and its checkpoints from any other, in plain lines."""
    meta, counts = {key: value for key, value in study.meta.items() if pd.notna(value)}, study.counts
    revision = f", revision {meta['dataset_revision']}" if "dataset_revision" in meta else ""
    return "\n".join(
        [
            f"Depthscope {meta.get('tool_version', '')}, {study.name}, computed {meta.get('created_at', 'once')[:10]}".replace(" ,", ","),
            f"file: SHA-256 {study.sha256}",
            f"text: {meta.get('dataset', 'unknown')}{revision}, {counts['sequences']:,} sequences, {counts['scored']:,} scored positions",
            f"token stream: SHA-256 {meta.get('tokens_sha256', 'unknown')}",
            *(f"{row.checkpoint}: {row.name}, weights SHA-256 {_known(row.weights_sha256)}" for row in study.checkpoints.itertuples()),
        ]
    )


def _known(value: str | None) -> str:
    return "unknown" if pd.isna(value) else value
