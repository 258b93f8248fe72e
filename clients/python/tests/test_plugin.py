from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

SUITE = """
import pytest
CASES = [{"input": n, "expected": str(n * 2)} for n in range(20)]

@pytest.fixture
def factor():
    return 2
"""
PASSES = SUITE + """
@pytest.mark.touchstone(CASES, pass_score=0.8)
def test_doubles(question, factor):
    return str(question * factor)
"""
FAILS = SUITE + """
@pytest.mark.touchstone(CASES, pass_score=0.8)
def test_triples(question):
    return str(question * 3)
"""
INCONCLUSIVE = SUITE + """
@pytest.mark.touchstone(CASES[:2], pass_score=0.8)
def test_few(question):
    return str(question * 2)
"""


@pytest.fixture(autouse=True)
def outside_xdist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)


def test_a_pass_is_a_pass_with_properties(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(PASSES)
    done = pytester.runpytest_subprocess("--junit-xml=out.xml", "--strict-markers")
    assert done.ret == 0
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*test_doubles  PASS  score 1.00 *pass score 0.8  run_*"])
    root = ET.parse(pytester.path / "out.xml").getroot()
    properties = {it.attrib["name"]: it.attrib["value"] for it in root.iter("property")}
    assert properties["touchstone_verdict"] == "pass" and properties["touchstone_run"].startswith("run_")
    assert (pytester.path / ".touchstone" / "pytest").is_dir()


def test_a_negative_verdict_fails_with_the_failures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAILS)
    done = pytester.runpytest_subprocess()
    assert done.ret == 1
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["FAIL  score*", "*expected  2*", "*actual    3*", "*Captured touchstone call*", "*answered*"])


@pytest.mark.parametrize(("meaning", "code"), [("fail", 1), ("skip", 0), ("pass", 0)])
def test_inconclusive_is_its_own_outcome(pytester: pytest.Pytester, meaning: str, code: int) -> None:
    pytester.makepyfile(INCONCLUSIVE)
    done = pytester.runpytest_subprocess("-v", f"--touchstone-inconclusive={meaning}")
    assert done.ret == code
    done.stdout.fnmatch_lines(["*test_few INCONCLUSIVE*", "*1 inconclusive in*"])


def test_a_regression_fails_although_the_pass_score_is_reached(pytester: pytest.Pytester) -> None:
    baseline = """
    import pytest
    CASES = [{"input": n, "expected": str(n)} for n in range(60)]

    def test_first(evaluation):
        evaluation(CASES, agent=str, pass_score=0.4, name="test_echoes")

    @pytest.mark.touchstone(CASES, pass_score=0.4, baseline="latest", name="test_echoes")
    def test_echoes(question):
        return str(question) if question % 4 else "wrong"
    """
    pytester.makepyfile(baseline)
    done = pytester.runpytest_subprocess()
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["PASS  score 0.75*", "  against the baseline -0.25 [[]-0.*, -0.*[]]: regressed"])


def test_a_baseline_passes_in_a_clean_checkout(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(PASSES.replace("pass_score=0.8", 'pass_score=0.8, baseline="latest"'))
    for _ in range(2):
        pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_an_error_is_reported_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(PASSES.replace("pass_score=0.8", "pass_score=8"))
    done = pytester.runpytest_subprocess()
    done.assert_outcomes(failed=1)
    assert "During handling" not in done.stdout.str()


def test_async_functions_classes_and_whole_questions(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        SUITE
        + """
import touchstone

class TestAgents:
    @pytest.mark.touchstone(CASES, pass_score=0.8)
    async def test_async(self, question: touchstone.Question, factor):
        return str(question.input * factor)
"""
    )
    done = pytester.runpytest_subprocess()
    done.assert_outcomes(passed=1)


def test_the_fixture_evaluates(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        SUITE
        + """
def test_by_hand(evaluation):
    assert evaluation(CASES, agent=lambda n: str(n * 2), pass_score=0.8).passed

def test_few(evaluation):
    assert evaluation(CASES[:2], agent=lambda n: str(n * 2)).count("passed") == 2
"""
    )
    done = pytester.runpytest_subprocess()
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["*test_by_hand  PASS*", "*test_few  INCONCLUSIVE*"])


def test_mistakes_are_explained(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
import pytest

@pytest.mark.touchstone("none.json")
def test_no_file(question): ...

@pytest.mark.touchstone([{"input": 1, "expected": "1"}])
def test_no_question(): ...

@pytest.mark.touchstone()
def test_no_cases(question): ...

def test_unmarked(question): ...
"""
    )
    done = pytester.runpytest_subprocess()
    done.assert_outcomes(failed=3, errors=1)
    done.stdout.fnmatch_lines_random(
        [
            "*could not read*none.json*",
            "*test_no_question needs the parameter `question`*",
            "*write the cases once*",
            "*only for functions marked touchstone*",
        ]
    )


def test_several_processes(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(test_one=INCONCLUSIVE, test_two=PASSES)
    done = pytester.runpytest_subprocess("-n2", "-p", "xdist")
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*test_few  INCONCLUSIVE*", "*1 passed, 1 inconclusive in*"])


def test_it_can_be_turned_off(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_nothing(): pass")
    done = pytester.runpytest_subprocess("-p", "no:touchstone", "-p", "no:touchstone.pytest_plugin", "--markers")
    done.stdout.no_fnmatch_line("*touchstone(suite*")


def test_the_plugin_loads_nothing_but_itself() -> None:
    code = "import sys, pytest; before = set(sys.modules); import touchstone.pytest_plugin; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["touchstone", "touchstone._version", "touchstone.pytest_plugin"]
