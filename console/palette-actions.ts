/** What the palette can do, in words: `suspend account ada`, `retry receiver hooks.acme.test`, `theme dark`. */
import { read } from './api/client.ts';
import { reloadScreen } from './api/load.ts';
import type { AccountItem, DomainItem, KeyItem, Page, QueueReceiver } from './api/types.ts';
import { live, theme, zone } from './remembered.ts';
import {
  askForQuota,
  resume as resumeAccount,
  suspend as suspendAccount,
} from './screens/account-actions.tsx';
import { resume, rotateDkim, suspend, verify } from './screens/domain-actions.tsx';
import { askToRevoke } from './screens/keys.tsx';
import { askForAction, type QueueAction } from './screens/queue-actions.tsx';
import { leave } from './sign-out.ts';

/** Something that the palette found. */
export interface Hit {
  readonly kind: 'Action' | 'Page' | 'Domain' | 'Account' | 'Message';
  readonly text: string;
  /** Where it leads. */
  readonly to?: string | { readonly path: string; readonly query?: Record<string, string> };
  /** What it does, after the palette was closed. */
  readonly run?: () => void;
  /** Becomes the text of the palette, since more is to be said. */
  readonly fill?: string;
}

/** How many of each kind are shown. */
export const FEW = 5;

type Find = (q: string, signal: AbortSignal) => Promise<readonly Hit[]>;

interface Command {
  /** As it is written: a verb, and of what. */
  readonly words: readonly [verb: string, noun: string];
  /** What it can be done to; left out where the words say all. */
  readonly find?: Find;
  readonly hit?: Omit<Hit, 'kind' | 'text'>;
}

/** @param verb as the sentence begins: `Suspend` */
function onAccounts(
  verb: string,
  run: (account: AccountItem) => void,
  fits: (account: AccountItem) => boolean = () => true,
): Find {
  return async (q, signal) => {
    const { items } = await read<Page<AccountItem>>('/accounts', { q, limit: FEW }, signal);
    return items.filter(fits).map((one) => ({
      kind: 'Action',
      text: `${verb} ${one.address}`,
      run: () => run(one),
    }));
  };
}

function onDomains(
  verb: string,
  run: (domain: DomainItem) => void,
  fits: (domain: DomainItem) => boolean = () => true,
): Find {
  return async (q, signal) => {
    const { items } = await read<Page<DomainItem>>('/domains', { q, limit: FEW }, signal);
    return items.filter(fits).map((one) => ({
      kind: 'Action',
      text: `${verb} ${one.domain} of ${one.user_id}`,
      run: () => run(one),
    }));
  };
}

function onReceivers(action: QueueAction, verb: string): Find {
  return async (q, signal) => {
    const path = '/queue/receivers';
    const { items } = await read<Page<QueueReceiver>>(path, { q, limit: FEW }, signal);
    return items.map(({ destination }) => ({
      kind: 'Action',
      text: `${verb} all to ${destination}`,
      run: () => {
        const filter = { status: action === 'release' ? 'held' : 'waiting', destination };
        void askForAction(action, filter, `to ${destination}`, reloadScreen);
      },
    }));
  };
}

const isSuspended = ({ status }: AccountItem) => status === 'suspended';
const isInForce = (one: AccountItem) => !isSuspended(one);

const KEYS = 200;

/** Keys have no search of their own: there are few. */
const onKeys: Find = async (q, signal) => {
  const { items } = await read<Page<KeyItem>>('/keys', { limit: KEYS }, signal);
  return (
    items
      .filter(({ name, status }) => status !== 'revoked' && name.toLowerCase().startsWith(q))
      // The whole name comes before those that begin with it.
      .toSorted((one, other) => one.name.length - other.name.length)
      .slice(0, FEW)
      .map((one) => ({
        kind: 'Action',
        text: `Revoke ${one.name} (key ${one.id})`,
        run: () => askToRevoke(one, reloadScreen),
      }))
  );
};

const commands: readonly Command[] = [
  {
    words: ['suspend', 'account'],
    find: onAccounts('Suspend', (one) => void suspendAccount(one, reloadScreen), isInForce),
  },
  {
    words: ['resume', 'account'],
    find: onAccounts('Resume', (one) => resumeAccount(one, reloadScreen), isSuspended),
  },
  {
    words: ['quota', 'account'],
    find: onAccounts('Set the quota of', (one) => askForQuota(one, reloadScreen)),
  },
  {
    words: ['verify', 'domain'],
    find: onDomains('Check DNS of', (one) => void verify(one, reloadScreen)),
  },
  {
    words: ['suspend', 'domain'],
    find: onDomains(
      'Suspend',
      (one) => suspend(one, reloadScreen),
      (one) => !one.suspended,
    ),
  },
  {
    words: ['resume', 'domain'],
    find: onDomains(
      'Resume',
      (one) => resume(one, reloadScreen),
      (one) => one.suspended,
    ),
  },
  {
    words: ['dkim', 'domain'],
    find: onDomains('Change the DKIM key of', (one) => rotateDkim(one, reloadScreen)),
  },
  { words: ['retry', 'receiver'], find: onReceivers('retry', 'Retry') },
  { words: ['hold', 'receiver'], find: onReceivers('hold', 'Hold') },
  { words: ['release', 'receiver'], find: onReceivers('release', 'Release') },
  { words: ['drop', 'receiver'], find: onReceivers('drop', 'Drop') },
  { words: ['new', 'API key'], hit: { to: '/keys#key-name' } },
  { words: ['revoke', 'API key'], find: onKeys },
  { words: ['block', 'sender'], hit: { to: '/blocks#block-value' } },
  ...(['light', 'dark', 'system'] as const).map(
    (name): Command => ({
      words: ['theme', name],
      hit: {
        run: () => {
          theme.value = name;
        },
      },
    }),
  ),
  ...(['on', 'off'] as const).map(
    (state): Command => ({
      words: ['live', state],
      hit: {
        run: () => {
          live.value = state;
        },
      },
    }),
  ),
  ...(['local', 'UTC'] as const).map(
    (name): Command => ({
      words: ['times', name],
      hit: {
        run: () => {
          zone.value = name;
        },
      },
    }),
  ),
  { words: ['sign', 'out'], hit: { run: () => void leave() } },
];

/** The least that names a verb: fewer letters are the beginning of a page's or a domain's name. */
const LEAST = 3;

/** The commands that a text begins, each with what it says beyond the command's own words. */
function begun(text: string): readonly (readonly [Command, rest: string])[] {
  const [verb = '', ...others] = text.toLowerCase().split(/\s+/);
  if (verb.length < LEAST) return [];
  return commands.flatMap((command) => {
    const [first, second] = command.words;
    if (!first.startsWith(verb) || (others.length > 0 && first !== verb)) return [];
    const noun = second.toLowerCase();
    const said = others.join(' ');
    if (noun.startsWith(said)) return [[command, ''] as const];
    if (!command.find) return [];
    // The noun may be left out.
    return [[command, said.startsWith(`${noun} `) ? said.slice(noun.length + 1) : said] as const];
  });
}

/** Commands that say all, and those that ask for more. */
export function commandsHere(text: string): readonly Hit[] {
  return begun(text)
    .filter(([, rest]) => rest === '')
    .map(([{ words, hit }]) => {
      const said = words.join(' ');
      const shown = `${said.charAt(0).toUpperCase()}${said.slice(1)}`;
      return hit
        ? { kind: 'Action', text: shown, ...hit }
        : { kind: 'Action', text: `${shown} …`, fill: `${said} ` };
    });
}

/** Commands with what they can be done to. */
export async function findCommands(text: string, signal: AbortSignal): Promise<readonly Hit[]> {
  const found = begun(text).flatMap(([{ find }, rest]) =>
    find && rest !== '' ? [find(rest, signal)] : [],
  );
  return (await Promise.all(found)).flat();
}
