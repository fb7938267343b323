"""The Hugging Face hub: what is fetched from it, and in one sentence why it could not be."""

from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from db.errors import UserError

FAILURES = (OSError, HTTPError, HFValidationError)


def tokenizer_folder(name: str) -> Path:
    """A folder with the tokenizer files of a hub model, from the local cache where the hub is out of reach.

    Raises UserError where neither has them.
    """
    try:
        return Path(snapshot_download(name, allow_patterns=["tokenizer.json", "tokenizer_config.json"]))
    except FAILURES as error:
        raise UserError(
            f"Tokenizer {name} is no file or folder here and cannot be fetched: {_reason(error)}. Give a folder holding tokenizer.json."
        ) from error


def dataset_commit(name: str, revision: str | None) -> str:
    """The commit that `revision` (a branch, tag or commit; None is the default branch) of a hub data set stands for.

    Raises UserError where the hub does not answer or has no such data set.
    """
    try:
        return str(HfApi().dataset_info(name, revision=revision).sha)
    except FAILURES as error:
        place = name if revision is None else f"{name} at revision {revision}"
        raise UserError(
            f"Data set {place} is no file or folder here and cannot be fetched: {_reason(error)}. Give a folder or file that holds it."
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, GatedRepoError):  # a kind of RepositoryNotFoundError
        return "its owner grants access on request; ask for it on the hub, then run `hf auth login`"
    if isinstance(error, RepositoryNotFoundError):
        return "the hub has none of that name, or it is private (then run `hf auth login`)"
    if isinstance(error, RevisionNotFoundError):
        return "the hub has no such revision of it"
    if isinstance(error, HFValidationError):
        return "that is no hub name either (owner/name)"
    # Files sought in the cache after a failed call: the call's failure is the reason.
    call = error.__cause__ if isinstance(error, LocalEntryNotFoundError) and error.__cause__ else error
    if isinstance(call, HfHubHTTPError):
        return f"the hub answered with status {call.response.status_code}"
    return f"the hub cannot be reached ({type(call).__name__})"
