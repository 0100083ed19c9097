/** What is done to a domain: from the list and from its own page. */
import { act, call } from '../api/client.ts';
import { asApiError } from '../api/load.ts';
import type { DomainInfo, DomainItem, Removal } from '../api/types.ts';
import { Facts } from '../ui/basics.tsx';
import { ask, askAfter } from '../ui/dialogs.tsx';
import { count, formatBytes, formatNumber } from '../ui/format.ts';
import { say } from '../ui/messages.tsx';
import { startWork } from '../ui/work.tsx';
import { isMissing } from './domain-health.tsx';

type Named = Pick<DomainItem, 'domain' | 'user_id'>;
type Done = () => void | Promise<void>;

/** Asks DNS for the domain's records now. */
export async function verify({ domain, user_id }: Named, done: Done): Promise<void> {
  try {
    const answer = await call<DomainInfo>(
      'POST',
      `/v2/domains/${encodeURIComponent(domain)}/verify`,
      { body: { user_id } },
    );
    const good = answer.dns.filter((one) => one.status === 'verified' && !isMissing(one)).length;
    say(
      `${domain} is ${answer.domain.status}: ${good} of ${count(answer.dns.length, 'record')} verified.`,
    );
    await done();
  } catch (error) {
    say(`${domain} was not checked: ${asApiError(error).message}`, 'bad');
  }
}

interface Order {
  /** What the strip says: `Suspend`, `are suspended`. */
  readonly title: string;
  readonly done: string;
  readonly after: () => Promise<void>;
  readonly run: (domain: Named) => Promise<unknown>;
}

/** Does the same to several domains, one after the other; the strip says how many it could not be done to. */
function forAll(domains: readonly Named[], { title, done, after, run }: Order): void {
  let at = 0;
  startWork({
    title: `${title} ${count(domains.length, 'domain')}`,
    matched: domains.length,
    done,
    left: { failed: 'it was refused; try one of them to see why' },
    after,
    step: async () => {
      const one = domains[at];
      at += 1;
      const isDone = await (one ? run(one) : Promise.reject(new Error('none is left'))).then(
        () => true,
        () => false,
      );
      return {
        matched: 1,
        changed: isDone ? 1 : 0,
        ...(!isDone && { skipped: { failed: 1 } }),
        ...(at < domains.length && { more: true, next: String(at) }),
      };
    },
  });
}

/** Asks DNS for the records of several domains. */
export function checkAll(domains: readonly Named[], after: () => Promise<void>): void {
  const run = ({ domain, user_id }: Named) =>
    call('POST', `/v2/domains/${encodeURIComponent(domain)}/verify`, { body: { user_id } });
  forAll(domains, { title: 'Check DNS of', done: 'are checked', after, run });
}

const suspension =
  'Accounts cannot sign in, their sockets end, and the queue is held. Mail that comes is deferred: ' +
  'senders keep it and try again, for days. Nothing is lost.';

export function suspendAll(domains: readonly Named[], after: () => Promise<void>): void {
  ask({
    title: `Suspend ${count(domains.length, 'domain')}?`,
    action: 'Suspend',
    isDangerous: true,
    field: { label: 'Reason', hint: 'Shown with each domain' },
    text: () => [<Names domains={domains} />, <p>{suspension}</p>],
    run: async (reason) => {
      const run = ({ domain, user_id }: Named) =>
        act('/domains/suspend', { domain, user_id, ...(reason && { reason }) });
      forAll(domains, { title: 'Suspend', done: 'are suspended', after, run });
    },
  });
}

export function resumeAll(domains: readonly Named[], after: () => Promise<void>): void {
  ask({
    title: `Resume ${count(domains.length, 'domain')}?`,
    action: 'Resume',
    text: () => [
      <Names domains={domains} />,
      <p>Accounts can sign in again, mail is accepted, and queues go on.</p>,
    ],
    run: async () => {
      const run = ({ domain, user_id }: Named) => act('/domains/resume', { domain, user_id });
      forAll(domains, { title: 'Resume', done: 'work again', after, run });
    },
  });
}

/** So many names are shown. */
const NAMES = 5;

function Names({ domains }: { domains: readonly Named[] }) {
  const more = domains.length - NAMES;
  return (
    <p>
      {domains
        .slice(0, NAMES)
        .map(({ domain }) => domain)
        .join(', ')}
      {more > 0 && ` and ${formatNumber(more)} more`}
    </p>
  );
}

/** Makes the next DKIM key, whose record is then listed with the others. */
export function rotateDkim({ domain, user_id }: Named, done: Done): void {
  ask({
    title: `Change the DKIM key of ${domain}?`,
    action: 'Make a new key',
    text: () => (
      <p>
        A second DKIM record is listed, to be added in DNS beside the first. Mail is signed with the
        old key until DNS shows the new record. A key that waits for its record stays as it is.
      </p>
    ),
    run: async () => {
      await call('POST', `/v2/domains/${encodeURIComponent(domain)}/dkim/rotate`, {
        body: { user_id },
      });
      say(`${domain} has a new DKIM key: add its record in DNS.`);
      await done();
    },
  });
}

export function suspend({ domain, user_id }: Named, done: Done): void {
  ask({
    title: `Suspend ${domain}?`,
    action: 'Suspend',
    isDangerous: true,
    field: { label: 'Reason', hint: 'Shown with the domain' },
    text: () => <p>{suspension}</p>,
    run: async (reason) => {
      await act('/domains/suspend', { domain, user_id, ...(reason && { reason }) });
      say(`${domain} is suspended.`);
      await done();
    },
  });
}

export function resume({ domain, user_id }: Named, done: Done): void {
  ask({
    title: `Resume ${domain}?`,
    action: 'Resume',
    text: () => <p>Its accounts can sign in again, its mail is accepted, and its queue goes on.</p>,
    run: async () => {
      await act('/domains/resume', { domain, user_id });
      say(`${domain} works again.`);
      await done();
    },
  });
}

/** Shows what a deletion removes, and has the name typed before it is done. */
export function remove({ domain, user_id }: Named, done: Done): Promise<void> {
  return askAfter(async () => {
    const { would_remove: removal } = await act<{ would_remove: Removal }>('/domains/delete', {
      domain,
      user_id,
    });
    return {
      title: `Delete ${domain}?`,
      action: 'Delete for good',
      isDangerous: true,
      typed: domain,
      text: () => (
        <>
          <p>This cannot be undone. It removes:</p>
          <Facts
            facts={[
              ['Accounts', formatNumber(removal.accounts)],
              ['Messages', `${formatNumber(removal.messages)}, ${formatBytes(removal.bytes)}`],
              ['Deliveries', formatNumber(removal.deliveries)],
            ]}
          />
        </>
      ),
      run: async () => {
        await act('/domains/delete', { domain, user_id, confirm: domain });
        say(`${domain} is deleted.`);
        await done();
      },
    };
  });
}
