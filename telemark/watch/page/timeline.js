// The measurements of a network that the page keeps, in order of time. Their number is bounded.
"use strict";
const MAX_KEPT = 5000, MAX_KEPT_VALUES = 8e5;

class Timeline {
  // A measurement has one object per direction, so large networks have fewer measurements.
  constructor(directions) {
    this.kept = [];
    this.max = Math.min(MAX_KEPT, Math.max(100, MAX_KEPT_VALUES / directions));
  }

  // Adds a measurement. If there are too many, removes every second one of the older half.
  // Counters are cumulative, so the remaining ones have correct averages.
  add(measurement) {
    if (this.kept.at(-1)?.time_ns >= measurement.time_ns) this.kept.pop();
    this.kept.push(measurement);
    if (this.kept.length > this.max) {
      const half = this.kept.length / 2;
      this.kept = this.kept.filter((_, index) => index >= half || index % 2 === 0);
    }
  }

  get latest() {
    return this.kept.at(-1);
  }

  // Returns the number of the last measurement at or before a time; 0 if there is none.
  indexAt(time_ns) {
    let low = 0, high = this.kept.length;
    while (high - low > 1) {
      const middle = low + high >> 1;
      if (this.kept[middle].time_ns <= time_ns) low = middle;
      else high = middle;
    }
    return low;
  }

  // Returns at most `count` measurements around a time.
  around(time_ns, count) {
    const first = Math.min(this.indexAt(time_ns) - count / 2, this.kept.length - count);
    return this.kept.slice(Math.max(0, first), Math.max(0, first) + count);
  }
}
