/** What DNS lacks for a domain, in words: whether it receives and can send, and how each record is. */
import type { DnsRecord, DomainItem } from '../api/types.ts';
import { Card, Copyable, State } from '../ui/basics.tsx';
import { formatName, formatSpan, formatTime } from '../ui/format.ts';
import { say } from '../ui/messages.tsx';
import { Icon, type IconName, type Tone } from '../ui/state.tsx';

/** A question about a domain, with the reason where the answer is no. */
interface Answer {
  readonly obstacle?: string;
  readonly since?: string | undefined;
}

/** Why mail to it is not taken, or does not find it. */
function receives({ suspended, suspended_at, status, ...domain }: DomainItem): Answer {
  if (domain.can_receive) return {};
  if (suspended) return { obstacle: 'suspended', since: suspended_at };
  if (status !== 'active') return { obstacle: 'not active' };
  return { obstacle: 'MX wrong', since: domain.records_failed_since };
}

/** Why its accounts cannot send. */
function canSend({
  suspended,
  suspended_at,
  can_send,
  can_send_since,
  status,
}: DomainItem): Answer {
  if (suspended) return { obstacle: 'suspended', since: suspended_at };
  if (can_send) return { since: can_send_since };
  return { obstacle: status === 'active' ? 'DKIM wrong' : 'not active', since: can_send_since };
}

/** "Yes" or "No", with the reason and since when. */
function Said({ domain, answer: { obstacle, since } }: { domain: DomainItem; answer: Answer }) {
  if (obstacle === undefined) return <State name="yes" tone="good" />;
  // Only what worked and broke is bad.
  const isBroken = domain.status === 'active' && !domain.suspended;
  return (
    <>
      <State name="no" tone={isBroken ? 'bad' : 'wait'} />
      <span class="below">
        {obstacle}
        {since && <Since at={since} />}
      </span>
    </>
  );
}

export const Receives = ({ domain }: { domain: DomainItem }) => (
  <Said domain={domain} answer={receives(domain)} />
);

export const CanSend = ({ domain }: { domain: DomainItem }) => (
  <Said domain={domain} answer={canSend(domain)} />
);

/** How long it has been so; the exact time is where the pointer rests. */
function Since({ at }: { at: string }) {
  const seconds = (Date.now() - Date.parse(at)) / 1000;
  return (
    <time datetime={at} title={formatTime(at)}>
      {' since '}
      {formatSpan(seconds, 1)}
    </time>
  );
}

const purposes = ['mx', 'spf', 'dkim', 'dmarc'] as const;

/** The four records, each as a small word with an icon: what is wrong with one is said where the pointer or the focus is. */
export function DnsWords({ domain }: { domain: DomainItem }) {
  return (
    <span class="dns-words">
      {purposes.map((purpose) => {
        const [tone, icon, said] = wordOf(domain, purpose);
        const name = purpose.toUpperCase();
        return (
          <span
            key={purpose}
            class={['dns-word', tone]}
            title={`${name} ${said}`}
            tabindex={tone === 'plain' ? undefined : 0}
          >
            <Icon name={icon} />
            {name}
            <span class="unseen"> {said}</span>
          </span>
        );
      })}
    </span>
  );
}

function wordOf(domain: DomainItem, purpose: string): readonly [Tone, IconName, string] {
  const since = domain.records_failed_since;
  if (domain.records_failed.includes(purpose)) {
    return ['bad', 'cross', since ? `failed; the first one since ${formatTime(since)}` : 'failed'];
  }
  if (domain.records_missing.includes(purpose)) return ['bad', 'alert', 'missing now'];
  return domain.status === 'active'
    ? ['plain', 'check', 'verified']
    : ['wait', 'clock', 'not failed; its page says whether it is verified'];
}

/** Whether it is verified by its status, but was not there at the last look. */
export const isMissing = ({ status, misses, key_state }: DnsRecord) =>
  status === 'verified' && misses > 0 && key_state !== 'old';

/** What a record is needed for. */
const uses: Readonly<Record<string, string>> = {
  mx: 'Receiving: it says that mail for the domain comes here.',
  spf: 'Sending: others accept what this server sends for the domain.',
  dkim: 'Sending: nothing is sent without a key that receivers can look up.',
  dmarc: 'Sending: it says what receivers do with mail that only pretends to be from the domain.',
};

/** The name of a record, as it stands in a zone. */
const nameOf = (domain: string, host: string) => (host === '@' ? domain : `${host}.${domain}`);

/** All records as a zone file has them (RFC 1035, section 5.1); a text has at most 255 octets a string. */
export function zoneOf(domain: string, records: readonly DnsRecord[]): string {
  return records
    .filter(({ key_state }) => key_state !== 'old')
    .map(({ host, record_type: type, priority, expected_value: value }) => {
      const strings = (value.match(/.{1,255}/g) ?? []).map((part) => `"${part}"`);
      const written =
        type === 'TXT' ? strings.join(' ') : `${priority ?? ''} ${value.replace(/\.?$/, '.')}`;
      return `${nameOf(domain, host)}.\tIN\t${type}\t${written.trim()}`;
    })
    .join('\n');
}

/** A card for each record: what it is for, what is expected and what was found. */
export function Health({ domain, records }: { domain: string; records: readonly DnsRecord[] }) {
  const copy = async () => {
    await navigator.clipboard.writeText(`${zoneOf(domain, records)}\n`);
    say('The records are copied as a zone file.');
  };
  return (
    <>
      <p class="buttons above">
        <button type="button" class="plain" onClick={() => void copy()}>
          Copy all as zone file
        </button>
      </p>
      <div class="health">
        {records.map((record) => (
          <RecordCard key={record.id} domain={domain} record={record} />
        ))}
      </div>
    </>
  );
}

function RecordCard({ domain, record }: { domain: string; record: DnsRecord }) {
  const { purpose, record_type: type, host, priority, expected_value: expected } = record;
  const { observed_value: observed, detail, failing_since: since, key_state, status } = record;
  const name = key_state === 'old' ? 'old' : isMissing(record) ? 'missing_now' : status;
  const isWrong = observed !== undefined && (status !== 'verified' || isMissing(record));
  return (
    <Card title={`${purpose.toUpperCase()}: ${nameOf(domain, host)}`}>
      {() => (
        <div class="record">
          <p>
            <State name={name} />
            {since && <Since at={since} />}
          </p>
          <p class="soft">{uses[purpose] ?? formatName(purpose)}</p>
          <dl class="facts">
            <div>
              <dt>
                Expected: {type}
                {priority !== undefined && `, priority ${priority}`}
              </dt>
              <dd>
                <Copyable text={expected} name={`the ${type} record of ${host}`} />
              </dd>
            </div>
            {isWrong && (
              <div>
                <dt>Found</dt>
                <dd>
                  <code>
                    <Difference expected={expected} found={observed} />
                  </code>
                </dd>
              </div>
            )}
          </dl>
          {detail && <p>{detail}</p>}
        </div>
      )}
    </Card>
  );
}

/** What was found, with what is not as expected marked. */
function Difference({ expected, found }: { expected: string; found: string }) {
  const least = Math.min(expected.length, found.length);
  let start = 0;
  while (start < least && expected[start] === found[start]) start++;
  let end = 0;
  while (end < least - start && expected.at(-1 - end) === found.at(-1 - end)) end++;
  const middle = found.slice(start, found.length - end);
  return (
    <>
      {found.slice(0, start)}
      {middle !== '' && <mark>{middle}</mark>}
      {found.slice(found.length - end)}
    </>
  );
}
