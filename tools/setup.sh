#!/bin/sh
# Finds a Python that is new enough and lets it make .venv; PYTHON names one instead.
set -eu
found=""
for python in ${PYTHON:-python3 python3.11 python3.12 python3.13 python}; do
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        exec "$python" "$(dirname "$0")/environment.py" "$@"
    fi
    found="$found $python is $version;"
done
echo "error: evigrad needs Python 3.11 or newer;${found:- none is on PATH;} nothing was installed." >&2
echo "Install one (Debian and Ubuntu: apt install python3 python3-venv), or name it: make PYTHON=/path/to/python3" >&2
exit 1
