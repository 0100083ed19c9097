/** What is done to an account: from the list and from its own page. */
import type { Step } from '../../src/platform/time/until-done.ts';
import { ApiError, act } from '../api/client.ts';
import type { AccountItem } from '../api/types.ts';
import { ask, askAfter } from '../ui/dialogs.tsx';
import { count, formatBytes } from '../ui/format.ts';
import type { Action } from '../ui/menu.tsx';
import { say } from '../ui/messages.tsx';
import { start } from './queue-actions.tsx';

type Named = Pick<AccountItem, 'id' | 'address' | 'status' | 'quota_bytes'>;
type Done = () => Promise<void>;

export function actionsOf(account: Named, done: Done): Action[] {
  return [
    { label: 'Quota', run: () => askForQuota(account, done) },
    account.status === 'suspended'
      ? { label: 'Resume', run: () => resume(account, done) }
      : { label: 'Suspend', isDangerous: true, run: () => void suspend(account, done) },
  ];
}

/** Counts what waits, asks what becomes of it, and suspends the account before anything is dropped. */
export function suspend({ id, address }: Named, done: Done): Promise<void> {
  const sent = { account: address, kind: 'send' };
  return askAfter(async () => {
    const { matched, more } = await act<Step>('/queue/drop', { ...sent, dry_run: true });
    const amount = `${more ? 'More than ' : ''}${count(matched, 'message')}`;
    const wait = matched === 1 && !more ? 'waits' : 'wait';
    return {
      title: `Suspend ${address}?`,
      action: 'Suspend',
      isDangerous: true,
      text: () => [
        <p>
          Its tokens stop at once, its sockets end, and mail for it is deferred. Nothing that it
          stores is lost.
        </p>,
        matched > 0 && (
          <p>
            {amount} that it sent {wait} for {matched === 1 ? 'its receiver' : 'their receivers'}:
          </p>
        ),
      ],
      ...(matched > 0 && {
        choices: [
          {
            value: 'keep',
            label: 'Keep',
            hint: 'They are tried when they are due.',
            action: 'Suspend and keep',
          },
          {
            value: 'drop',
            label: 'Drop',
            hint: 'They are not sent, and no bounce is sent.',
            action: 'Suspend and drop',
          },
        ],
      }),
      run: async (choice) => {
        await act('/accounts/suspend', { id });
        say(`${address} is suspended.`);
        if (choice === 'drop') {
          start('drop', [sent], more ? Infinity : matched, { where: `of ${address}`, done });
        }
        await done();
      },
    };
  });
}

export function resume({ id, address }: Named, done: Done): void {
  ask({
    title: `Resume ${address}?`,
    action: 'Resume',
    text: () => <p>The account signs in again, and its mail is taken.</p>,
    run: async () => {
      await act('/accounts/resume', { id });
      say(`${address} works again.`);
      await done();
    },
  });
}

const MB = 1_000_000;

export function askForQuota({ id, address, quota_bytes: now }: Named, done: Done): void {
  ask({
    title: `Quota of ${address}`,
    action: 'Set',
    field: { label: 'Megabytes', hint: 'Empty: QUOTA_BYTES. 0: no limit.' },
    text: () => (
      <p>
        {now ? `It may store ${formatBytes(now)} now.` : 'It has no limit now.'} A quota below what
        is stored removes nothing. Mail that does not fit is deferred.
      </p>
    ),
    run: async (text) => {
      const bytes = Math.round(Number(text) * MB);
      if (!Number.isSafeInteger(bytes) || bytes < 0) {
        throw new ApiError(0, 'no_number', 'The quota has to be a number of megabytes.');
      }
      await act('/accounts/quota', { id, quota_bytes: text === '' ? null : bytes });
      say(`The quota of ${address} is set.`);
      await done();
    },
  });
}
