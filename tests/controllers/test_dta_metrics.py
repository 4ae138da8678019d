"""Event counts of DTA switches are published while a system runs."""

from pathlib import Path

from virtual_networks import virtually

from collectors.dta.key_write import slot
from collectors.dta.packets import KeyWrite
from controllers.dta.manager.fabric import Area
from controllers.dta.stores import KeyWriteStore
from experiments.shared.dta.lossy_reports import REPORTER_PROGRAM, RecoveryMode, reporting
from experiments.shared.dta.reports import filled
from experiments.shared.dta.translator_setup import translating
from telemark.metrics.folder import INTERVAL_S, MetricsFolder
from telemark.session.run import Run

REPORTS, SLOTS = 20, 64


def test_metrics_are_published_again_and_again(tmp_path: Path) -> None:
    folder = MetricsFolder(tmp_path / "metrics")

    async def run_system(run: Run) -> None:
        run.metrics = folder
        async with reporting(run, "system", RecoveryMode(), REPORTER_PROGRAM):
            for _ in range(2):
                await run.clock.sleep_until(run.clock.now_ns() + round(1.5e9 * INTERVAL_S))
                (folder.path / "dta").unlink()

    virtually(tmp_path / "run", run_system)
    assert (folder.path / "dta").exists()  # again at the end


def test_translators_and_collectors_count_the_reports_that_were_sent(tmp_path: Path) -> None:
    folder = MetricsFolder(tmp_path / "metrics")

    async def send_reports(run: Run) -> None:
        run.metrics = folder
        area = Area(slot(1), SLOTS, lambda sessions: KeyWriteStore(1, SLOTS, sessions=sessions))
        async with translating(run, "system", [area]) as running:
            frames = filled(KeyWrite(redundancy=2, data=[0]), [range(REPORTS), 0, 0, 0, 0])
            await running.send(frames, rate_pps=1000)

    virtually(tmp_path / "run", send_reports)
    samples = {
        (name, labels.get("result")): value
        for metric in folder.collect() for name, labels, value, *_ in metric.samples
    }  # fmt: skip
    assert samples["dta_reports_total", "translated"] == REPORTS
    assert samples["dta_session_sent_total", None] == 2 * REPORTS
    assert samples["roce_accepted_packets_total", None] == 2 * REPORTS
