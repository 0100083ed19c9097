/** Reads NOTIFY (RFC 5465 section 8). */
import { canonicalLevels } from '../../mailboxes/mailstore/mailstore.ts';
import { BadCommand, type Cursor } from './cursor.ts';
import { type FetchRequest, readNewMessageItems } from './parse-fetch.ts';
import { No } from './session.ts';
import { EVENTS, NOTHING, type NotifyEvent, type NotifyRequest, type Watch } from './watches.ts';

/** Octets of a command, and names in it: they are kept for as long as the session lasts. */
const OCTETS_MAX = 16 * 1024;
const NAMES_MAX = 500;
const GROUPS_MAX = 16;
/** An event of any mailbox: MessageNew and the others are for messages, these for names. */
const OF_NAMES: readonly NotifyEvent[] = ['MailboxName', 'SubscriptionChange'];

interface Events {
  readonly events: ReadonlySet<NotifyEvent>;
  readonly fetch: FetchRequest | undefined;
  readonly hasUnknown: boolean;
}

/** @throws No where it asks for too much, or for events that are not known */
export function readNotify(command: Cursor): NotifyRequest {
  command.expect(' ');
  if (command.has('NONE')) {
    command.end();
    return NOTHING;
  }
  command.expect('SET');
  const tellsStatus = command.has(' STATUS');
  let selected: NotifyRequest['selected'] | 'unknown' = 'unknown';
  const watches: Watch[] = [];
  let hasUnknown = false;
  command.expect(' (');
  do {
    const of = command.atom('which mailboxes').toUpperCase();
    const names = readNames(command, of);
    const read = readEvents(command.space());
    hasUnknown ||= read.hasUnknown;
    command.expect(')');
    const { events, fetch } = read;
    if (of === 'SELECTED' || of === 'SELECTED-DELAYED') {
      if (selected !== 'unknown') throw new BadCommand('The selected mailbox is named twice');
      if (OF_NAMES.some((name) => events.has(name))) {
        throw new BadCommand('The selected mailbox has events of messages only');
      }
      // Section 5. Of other mailboxes one event is taken alone, as Dovecot does and ImapTest expects: of the selected one,
      // numbers of messages would mean others.
      if (events.size > 0 && !(events.has('MessageNew') && events.has('MessageExpunge'))) {
        throw new BadCommand(
          'Of the selected mailbox, MessageNew and MessageExpunge go together, and FlagChange with them',
        );
      }
      const isDelayed = of === 'SELECTED-DELAYED';
      const tellsFlags = events.has('FlagChange');
      selected = events.size > 0 ? { isDelayed, tellsFlags, fetch } : undefined;
    } else {
      if (fetch) throw new BadCommand('Messages are told of the selected mailbox only');
      if (!isFilter(of)) throw new BadCommand('The kind of mailboxes is not known');
      if (events.size > 0) watches.push({ of, names, events });
    }
  } while (command.has(' ('));
  command.end();
  if (hasUnknown) {
    throw new No(`BADEVENT (${EVENTS.join(' ')})`, 'Some of the events are not known');
  }
  const named = watches.reduce((sum, { names }) => sum + names.size, 0);
  if (command.octets > OCTETS_MAX || named > NAMES_MAX || watches.length > GROUPS_MAX) {
    const most = `${NAMES_MAX} names in ${GROUPS_MAX} groups and ${OCTETS_MAX} octets`;
    throw new No('NOTIFICATIONOVERFLOW', `A NOTIFY has at most ${most}`);
  }
  return { tellsStatus, selected: selected === 'unknown' ? undefined : selected, watches };
}

function isFilter(of: string): of is Watch['of'] {
  return ['PERSONAL', 'INBOXES', 'SUBSCRIBED', 'SUBTREE', 'MAILBOXES'].includes(of);
}

function readNames(command: Cursor, of: string): ReadonlySet<string> {
  if (of !== 'SUBTREE' && of !== 'MAILBOXES') return new Set();
  const names = command.space().listOrOne(() => command.mailbox());
  return new Set(names.map(canonicalLevels));
}

function readEvents(command: Cursor): Events {
  const events = new Set<NotifyEvent>();
  let fetch: FetchRequest | undefined;
  let hasUnknown = false;
  if (command.has('NONE')) return { events, fetch, hasUnknown };
  command.list(() => {
    const name = command.atom('an event').toLowerCase();
    const event = EVENTS.find((one) => one.toLowerCase() === name);
    if (event) events.add(event);
    else hasUnknown = true;
    if (event !== 'MessageNew' || !command.has(' (')) return;
    command.back(1);
    fetch = readNewMessageItems(command);
  });
  return { events, fetch, hasUnknown };
}
