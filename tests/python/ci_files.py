"""Validates the files that CI systems and pre-commit read against their published schemas.

Usage: ci_files.py ROOT
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import ruamel.yaml
from pre_commit.clientlib import load_manifest


def check(arguments, files):
    done = subprocess.run([sys.executable, "-m", "check_jsonschema", *arguments, *map(str, files)], check=False)
    if done.returncode != 0:
        sys.exit(f"{files} do not match {arguments}")


def scripts(document):
    """Every script of a workflow or action."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name in ("run", "script") and not isinstance(value, dict):
                yield from value if isinstance(value, list) else [value]
            else:
                yield from scripts(value)
    elif isinstance(document, list):
        for value in document:
            yield from scripts(value)


def main():
    root = Path(sys.argv[1])
    action, component = root / "action.yml", root / "templates" / "touchstone.yml"
    github = sorted((root / "docs" / "ci").glob("github-*.yml"))
    gitlab = sorted((root / "docs" / "ci").glob("gitlab-*.yml"))
    if not github or not gitlab:
        sys.exit("docs/ci has no workflow, or no pipeline of GitLab")
    check(["--builtin-schema", "vendor.github-actions"], [action])
    check(["--builtin-schema", "vendor.github-workflows"], github)
    with tempfile.TemporaryDirectory() as folder:
        documents = component.read_text().split("\n---\n")
        if len(documents) != 2:
            sys.exit(f"{component} must have a header and a pipeline")
        parts = []
        for number, text in enumerate(documents):
            part = Path(folder) / f"part-{number}.yml"
            # Inputs are replaced before GitLab validates: a choice among values is one of them.
            part.write_text(text)
            parts.append(part)
        check(["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"], [*parts, *gitlab])
    load_manifest(str(root / ".pre-commit-hooks.yaml"))
    yaml = ruamel.yaml.YAML(typ="safe", pure=True)
    for file in [action, component, *github, *gitlab]:
        for document in yaml.load_all(file):
            for script in scripts(document):
                if "${{" in script or "$[[" in script:
                    sys.exit(f"{file}: an expression in a script is code: {script}")
    print(f"{3 + len(github) + len(gitlab)} files are valid")


main()
