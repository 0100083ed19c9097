/** For each critical alert, what it reports, for a minute: the series that Prometheus reads then. */

const MINUTE = 60;
/** When the fault begins and ends, in seconds after the first scrape. */
export const FAULT = { begins: 10 * MINUTE, ends: 11 * MINUTE };
const DAY = 24 * 60 * MINUTE;

export interface Fault {
  /** By the name and labels of a series, its value at an instant, in seconds; a fault shifts the values of a counter. */
  readonly series: Readonly<Record<string, (at: number) => number>>;
  /** How long before the fault the series begin, in seconds. */
  readonly history?: number;
  /** Whether the alert needs more than a minute of it to be true at all. */
  readonly isBelow?: true;
}

const NODE = 'instance="a", job="postroom"';

const isOn = (at: number) => at >= FAULT.begins && at < FAULT.ends;
/** Seconds of the fault so far. */
const past = (at: number) => Math.min(Math.max(at - FAULT.begins, 0), FAULT.ends - FAULT.begins);
/** One a second, while the fault lasts or else. */
const during = (at: number) => past(at);
const otherwise = (at: number) => at - past(at);

/** By alert. */
export const faults: Readonly<Record<string, Fault>> = {
  PostroomDown: { series: { [`up{${NODE}}`]: (at) => Number(!isOn(at)) } },
  PostroomRestarts: { series: { [`process_start_time_seconds{${NODE}}`]: during } },
  PostroomFilesRunOut: {
    series: {
      [`process_open_fds{${NODE}}`]: (at) => (isOn(at) ? 950 : 100),
      [`process_max_fds{${NODE}}`]: () => 1_000,
    },
  },
  PostroomDiskFull: {
    series: {
      [`postroom_disk_free_bytes{${NODE}}`]: (at) => (isOn(at) ? 1e9 : 50e9),
      [`postroom_disk_size_bytes{${NODE}}`]: () => 100e9,
    },
  },
  PostroomDatabaseSlow: {
    series: {
      [`postroom_database_commit_duration_seconds_bucket{${NODE}, le="0.05"}`]: otherwise,
      [`postroom_database_commit_duration_seconds_bucket{${NODE}, le="1"}`]: otherwise,
      [`postroom_database_commit_duration_seconds_bucket{${NODE}, le="5"}`]: (at) => at,
      [`postroom_database_commit_duration_seconds_bucket{${NODE}, le="+Inf"}`]: (at) => at,
    },
  },
  PostroomBucketDown: {
    series: { [`postroom_body_store_up{${NODE}}`]: (at) => Number(!isOn(at)) },
  },
  PostroomMailDeferred: {
    series: { [`postroom_smtp_refusals_total{${NODE}, reason="unavailable"}`]: during },
  },
  PostroomNoMail: {
    series: { [`postroom_recipients_total{${NODE}, result="delivered"}`]: otherwise },
    history: DAY + 4 * 60 * MINUTE,
    isBelow: true,
  },
  PostroomQueueOverdue: {
    series: { [`postroom_queue_overdue_seconds{${NODE}, kind="send"}`]: during },
    isBelow: true,
  },
  PostroomRelayDown: {
    series: { [`postroom_relay_up{${NODE}}`]: (at) => Number(!isOn(at)) },
  },
  PostroomHttpErrors: {
    series: {
      [`postroom_http_requests_total{${NODE}, status="200"}`]: otherwise,
      [`postroom_http_requests_total{${NODE}, status="503"}`]: during,
    },
  },
  PostroomMailServerRefuses: {
    series: { [`postroom_mailserver_logins_total{${NODE}, result="failed"}`]: during },
  },
};
