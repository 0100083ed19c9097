/** What DNS lacks for a domain, in words: whether it can send, and how each record is. */
import type { DnsRecord, DomainItem } from '../api/types.ts';
import { State } from '../ui/basics.tsx';
import { formatSpan, formatTime } from '../ui/format.ts';

/** Why its accounts cannot send, or undefined where they can. */
function obstacleOf({ can_send, suspended, status }: DomainItem): string | undefined {
  if (suspended) return 'it is suspended';
  if (can_send) return undefined;
  return status === 'active' ? 'its DKIM record is not verified' : 'it is not active';
}

/** "Yes" or "No", with the reason and since when. */
export function CanSend({ domain }: { domain: DomainItem }) {
  const obstacle = obstacleOf(domain);
  // Only what worked and broke is bad.
  const isBroken = domain.status === 'active' && !domain.suspended;
  const tone = obstacle === undefined ? 'good' : isBroken ? 'bad' : 'wait';
  const since = domain.suspended ? domain.suspended_at : domain.can_send_since;
  return (
    <>
      <State name={obstacle ? 'no' : 'yes'} tone={tone} />
      {(obstacle || since) && (
        <span class="below">
          {obstacle}
          {obstacle && since && ', '}
          {since && <Since at={since} />}
        </span>
      )}
    </>
  );
}

/** How long it has been so; the exact time is where the pointer rests. */
function Since({ at }: { at: string }) {
  const seconds = (Date.now() - Date.parse(at)) / 1000;
  return (
    <time datetime={at} title={formatTime(at)}>
      for {formatSpan(seconds, 1)}
    </time>
  );
}

/** The records that are wrong: those that failed, and those that are still verified but gone. */
export function WrongRecords({ domain }: { domain: DomainItem }) {
  const { records_failed: failed, records_missing: missing } = domain;
  if (failed.length + missing.length === 0) return <span class="soft">–</span>;
  const wrong = [
    ...failed.map((purpose) => `${purpose.toUpperCase()} failed`),
    ...missing.map((purpose) => `${purpose.toUpperCase()} missing now`),
  ];
  return <span>{wrong.join(', ')}</span>;
}

/** Whether it is verified by its status, but was not there at the last look. */
export const isMissing = ({ status, misses, key_state }: DnsRecord) =>
  status === 'verified' && misses > 0 && key_state !== 'old';

/** The state of a record, and since when it is wrong. */
export function RecordState({ record }: { record: DnsRecord }) {
  const { status, key_state, failing_since: since } = record;
  // A DKIM record that is listed until it may go has no state of its own any more.
  const name = key_state === 'old' ? 'old' : isMissing(record) ? 'missing_now' : status;
  return (
    <>
      <State name={name} />
      {since && (
        <span class="below">
          <Since at={since} />
        </span>
      )}
    </>
  );
}
