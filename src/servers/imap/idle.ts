/** IDLE (RFC 2177), NOOP, CHECK, LOGOUT. */
import { BadCommand } from './cursor.ts';
import { tellNews } from './notify.ts';
import { Bye, type Command } from './session.ts';

export const idle: Command = {
  tells: 'everything',
  async *run(session, command) {
    command.end();
    yield '+ Waiting for changes\r\n';
    for (;;) {
      if (session.isBehind || session.watches?.isBehind) yield* tellNews(session, true);
      const line = await session.channel.nextLine();
      if (line === 'interrupted') continue;
      if (line?.toUpperCase() === 'DONE') return 'No longer waiting';
      if (line === undefined) throw new Bye('The client left');
      throw new BadCommand('Expected DONE');
    }
  },
};

export const noop: Command = {
  tells: 'everything',
  async run(session, command) {
    command.end();
    // An event may have been lost.
    session.isBehind = true;
    return 'Nothing done';
  },
};

export const logout: Command = {
  tells: 'nothing',
  async *run(session, command) {
    command.end();
    session.isOver = true;
    yield '* BYE Good bye\r\n';
    return 'Logged out';
  },
};
