"""The names of files and folders in which keys and passwords are kept: the one list of them."""

from __future__ import annotations

import re
from typing import Final

#: As a part of a path, without what stands before and after it.
PRIVATE_NAMES: Final = (
    r"\.env(?:\.(?!example|sample|template|dist)[^/:=@\n]*)?|\.envrc|\.netrc|\.pgpass|\.npmrc|\.pypirc"
    r"|\.git-credentials|\.my\.cnf|\.htpasswd|\.vault-token|\.[^/:=\n]*history"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?![^/:=\n]*\.pub)[^/:=\n]*|g?shadow-?"
    r"|credentials(?:\.[^/:=\n]*)?|secrets?\.[^/:=\n]*"
    r"|[^/:=@\n]*\.(?:pem|key|p12|pfx|kdbx|keystore|jks)"
    r"|\.(?:ssh|gnupg|aws|azure|kube|docker|password-store)|gcloud"
)

_SECRET: Final = re.compile(
    rf"(?:^|/)(?:{PRIVATE_NAMES}|[^/]+\.env|\.dockercfg|kubeconfig|\.s3cfg|\.boto|\.authinfo(?:\.gpg)?"
    r"|[^/]*\.tf(?:vars|state)(?:\.(?:json|backup))?|service[-_]?account[^/]*\.json)(?=$|/)",
    re.IGNORECASE,
)
#: Programs and pages about secrets, and what may be read by all.
_HARMLESS: Final = re.compile(
    r"(?:^|/)(?:credentials|secrets?)\.(?:\w+\.)*(?:c|cc|cpp|cs|css|dart|ex|exs|go|h|hpp|html?|java|jsx?"
    r"|kt|md|mjs|php|py|pyi|rb|rs|rst|scala|sql|svelte|swift|tsx?|vue)$|(?:^|/)known_hosts$",
    re.IGNORECASE,
)


def is_secret_file(path: str) -> bool:
    """Return whether keys or passwords are kept in files of such a ``/``-separated path."""
    return _SECRET.search(path) is not None and _HARMLESS.search(path) is None
