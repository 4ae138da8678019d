"""Event counts of DTA switches are published while a system runs."""

from pathlib import Path

from virtual_networks import virtually

from experiments.shared.dta.lossy_reports import REPORTER_PROGRAM, RecoveryMode, reporting
from telemark.export.folder import INTERVAL_S, MetricsFolder
from telemark.session.run import Run


def test_metrics_are_published_again_and_again(tmp_path: Path) -> None:
    folder = MetricsFolder(tmp_path / "metrics")

    async def run_system(run: Run) -> None:
        run.metrics = folder
        async with reporting(run, "system", RecoveryMode(), REPORTER_PROGRAM):
            for _ in range(2):
                await run.clock.sleep_until(run.clock.now_ns() + round(1.5e9 * INTERVAL_S))
                (published,) = folder.path.iterdir()
                published.unlink()

    virtually(tmp_path / "run", run_system)
    assert [file.name for file in folder.path.iterdir()] == ["dta"]  # again at the end
