/**
 * The trace: what happened to each message, for operators who search for one. Owns table `trace`: a row for
 * what one transaction did with a message for one recipient, kept TRACE_DAYS. Every row has the id that the client got (`250 2.0.0 Accepted
 * as <id>`), which the Received field, the log, deliveries and webhooks have as well.
 *
 * Crashes: {@link Trace.write} is part of the transaction that it describes, so there is no mail without its rows, and
 * no row for something that did not happen. {@link Trace.later} and {@link Trace.refused} are for events without a
 * transaction of their own: their rows wait in memory, for a second at most, and are written together, so that no
 * message waits for them. A killed process loses those of its last second.
 *
 * Limits: anybody can cause refusals. Of one client {@link REFUSALS.perClient} refusals an hour are kept, of all
 * {@link REFUSALS.inAll}: at 30 days that is 2.2 million rows, about 600 MB. One log line an hour says how many were
 * left out.
 */
export { listTrace, messageIdOf, type TraceRequest } from './list-trace.ts';
export {
  isOnWay,
  type RareEvent,
  ROWS_MAX,
  readEvents,
  readWay,
  type TraceRow,
  type TraceWay,
} from './messages.ts';
export {
  newMailId,
  REFUSALS,
  Trace,
  type TraceEvent,
  type TraceItem,
  traceColumns,
} from './write-trace.ts';
