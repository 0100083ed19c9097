/** CREATE, DELETE, RENAME, SUBSCRIBE, UNSUBSCRIBE (RFC 9051 section 6.3). */
import { canonicalLevels } from '../../mailboxes/mailstore/mailstore.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { Cursor } from './cursor.ts';
import { tellMailbox } from './list.ts';
import { type Command, No, type Session } from './session.ts';

/** A name that has no mailbox may be subscribed, too. */
function subscribing(isOn: boolean): Command {
  return {
    tells: 'no removals',
    async run(session, command) {
      const name = canonicalLevels(command.space().mailbox());
      command.end();
      const { mailstore } = session.services;
      const { imap } = mailstore;
      // Only names of mailboxes that were there once: no text of a client is kept.
      if (isOn && !(await imap.subscriptions(session.user)).has(name)) {
        await imap.open(session.user, name);
      }
      await mailstore.subscribe(session.user, name, isOn);
      session.wrote(name);
      return isOn ? 'Subscribed' : 'Not subscribed';
    },
  };
}

export const subscribe = subscribing(true);
export const unsubscribe = subscribing(false);

export const create: Command = {
  tells: 'no removals',
  async *run(session, command) {
    // A separator at the end says that there will be others below it (section 6.3.4).
    const name = command.space().mailbox().replace(/\/$/, '');
    const uses = readUses(command);
    command.end();
    // One mailbox for each use, and each account has them. \All and \Flagged would be views, which there are none of.
    if (uses.length > 0) throw new No('USEATTR', 'The account cannot have one more for this use');
    const { mailstore } = session.services;
    const { state } = await mailstore.createMailbox(session.user, name);
    // Programs subscribe what they make, each when it wants to.
    await mailstore.subscribe(session.user, state.mailbox, false, true).catch((error: unknown) => {
      if (!(error instanceof Refusal)) throw error;
    });
    session.wrote(state.mailbox);
    yield await tellOldName(session, state.mailbox, name, name);
    const id = mailstore.imap.objectIds.mailbox({ uidvalidity: Number(state.uidvalidity) });
    return `[MAILBOXID (${id})] The mailbox is made`;
  },
};

/** In IMAP4rev2, where a name is stored in another form than it was given (RFC 9051 sections 6.3.4 and 6.3.6). */
async function tellOldName(session: Session, name: string, given: string, old: string) {
  return session.isRev2 && name !== given ? tellMailbox(session, name, old) : '';
}

/** The uses that a new mailbox shall have (RFC 6154 section 3). */
function readUses(command: Cursor): string[] {
  if (!command.has(' (')) return [];
  command.expect('USE ');
  const uses = command.list(() => {
    command.expect('\\');
    return command.atom('a use');
  }, true);
  command.expect(')');
  return uses;
}

export const remove: Command = {
  tells: 'no removals',
  async *run(session, command) {
    const name = command.space().mailbox();
    command.end();
    const { state } = await session.services.mailstore.deleteMailbox(session.user, name);
    session.wrote(state.mailbox);
    const isSelected = session.view?.mailbox.uidvalidity === Number(state.uidvalidity);
    yield isSelected ? session.closed : '';
    if (isSelected) await session.closeMailbox();
    return 'The mailbox is deleted';
  },
};

export const rename: Command = {
  tells: 'no removals',
  async *run(session, command) {
    const name = command.space().mailbox();
    const to = command.space().mailbox();
    command.end();
    // Also what is listed as \Noselect, since others are below it (section 6.3.6).
    const { mailstore } = session.services;
    const { state } = await mailstore.renameMailbox(session.user, name, to, true);
    session.wrote(state.mailbox);
    session.wrote(canonicalLevels(name));
    session.renamed(canonicalLevels(name), state.mailbox);
    yield await tellOldName(session, state.mailbox, to, name);
    return 'The mailbox is renamed';
  },
};
