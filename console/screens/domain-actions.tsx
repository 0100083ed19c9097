/** What is done to a domain: from the list and from its own page. */
import { act, call } from '../api/client.ts';
import { asApiError } from '../api/load.ts';
import type { DomainInfo, DomainItem, Removal } from '../api/types.ts';
import { Facts } from '../ui/basics.tsx';
import { ask } from '../ui/dialogs.tsx';
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

/** Asks DNS for the records of several domains, one after the other. */
export function checkAll(domains: readonly Named[], after: () => Promise<void>): void {
  let at = 0;
  startWork({
    title: `Check DNS of ${count(domains.length, 'domain')}`,
    matched: domains.length,
    done: 'are checked',
    left: { failed: 'the check failed' },
    after,
    step: async () => {
      const { domain = '', user_id } = domains[at] ?? {};
      at += 1;
      const path = `/v2/domains/${encodeURIComponent(domain)}/verify`;
      const isChecked = await call('POST', path, { body: { user_id } }).then(
        () => true,
        () => false,
      );
      return {
        matched: 1,
        changed: isChecked ? 1 : 0,
        ...(!isChecked && { skipped: { failed: 1 } }),
        ...(at < domains.length && { more: true, next: String(at) }),
      };
    },
  });
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
    text: () => (
      <p>
        Its accounts cannot sign in, their sockets end, and its queue is held. Mail for it is
        deferred: senders keep it and try again, for days. Nothing is lost.
      </p>
    ),
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
export async function remove({ domain, user_id }: Named, done: Done): Promise<void> {
  try {
    const { would_remove: removal } = await act<{ would_remove: Removal }>('/domains/delete', {
      domain,
      user_id,
    });
    ask({
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
    });
  } catch (error) {
    say(`${domain} could not be read: ${asApiError(error).message}`, 'bad');
  }
}
