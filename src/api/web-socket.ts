/**
 * `GET /ws` without an upgrade. One that asks for WebSocket never comes here: `realtime/` takes it
 * from the server's `upgrade` event.
 */
import { Refusal } from '../errors/errors.ts';
import { type Api, credentials } from './server.ts';

export function webSocketRoute(app: Api): void {
  app.get(
    '/ws',
    {
      config: { refusals: ['upgrade_required', 'account_inactive'] },
      schema: {
        tags: ['Mail'],
        summary: 'Hear of mailbox changes at once',
        description:
          'A WebSocket (RFC 6455). Browsers, which cannot set Authorization, offer the subprotocols ' +
          '`postroom` and `bearer.<JWT>`. The first message is `hello`, with where every mailbox ' +
          'stands; then one `mailbox_changed` for each change. An event is a hint: sync with the ' +
          'token of your own last sync.',
        operationId: 'connect',
        security: credentials.bearer,
        response: { 101: { description: 'The connection speaks WebSocket.', type: 'null' } },
      },
    },
    (_request, reply) => {
      // RFC 9110 section 15.5.22: the answer says what to upgrade to.
      reply.header('upgrade', 'websocket').header('sec-websocket-version', '13');
      throw new Refusal('upgrade_required', 'this path speaks WebSocket only');
    },
  );
}
