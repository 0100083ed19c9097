/**
 * Section 4.2 of the contract: mailbox accounts and their passwords, and tokens for them.
 */
import { Type } from 'typebox';
import type { Database } from '../../platform/database/database.ts';
import type {
  Accounts,
  AccountWithPassword,
  RemovedAccount,
  Tokens,
} from '../../tenants/accounts/accounts.ts';
import type { Domains } from '../../tenants/domains/domains.ts';
import { addAppPasswords, type OwnedAppPasswords } from './app-passwords.ts';
import { contentsOfAccount } from './count-contents.ts';
import { TokenBody, writeToken } from './mail-tokens.ts';
import { answerWithin } from './repeat-safely.ts';
import { type Api, actorOf, type Owned, ownerOf, type RouteGroup } from './route-tools.ts';
import {
  answerPage,
  DomainBody,
  DomainName,
  Flag,
  Instant,
  OneOf,
  pageEcho,
  pageFields,
  pageOf,
  RecordId,
  SAVE_PASSWORD,
  Text,
  UserId,
  UserQuery,
  writeDomain,
  writerOf,
} from './schemas.ts';

export const AccountBody = Type.Object(
  {
    id: RecordId,
    user_id: UserId,
    domain: DomainName,
    local_part: Type.String({ examples: ['ada'] }),
    address: Text('`local_part@domain`.', 'ada@acme.test'),
    display_name: Type.String({ examples: ['Ada'] }),
    status: OneOf(['active', 'suspended']),
    is_default: Flag("Whether it is its user's oldest account."),
    created_at: Instant(),
  },
  { title: 'EmailAccount', description: 'A mailbox account of a user on one of its domains.' },
);

const OneAccount = Type.Object({ account: AccountBody });

const OnceShown = Type.Object(
  {
    account: AccountBody,
    password: Text('Shown only here.', 'correct horse'),
    note: Type.String({ examples: [SAVE_PASSWORD] }),
  },
  { title: 'AccountWithPassword', description: 'An account whose password was just set.' },
);

const AccountPath = Type.Object({ id: RecordId });

const Password = Text('At least 8 characters; generated when left out.', 'correct horse');

export const writeAccount = writerOf(AccountBody);

function writeOnceShown(made: AccountWithPassword): Type.Static<typeof OnceShown> {
  return { account: writeAccount(made.account), password: made.password, note: SAVE_PASSWORD };
}

type OwnedAccounts = Owned<Accounts>;
type OwnedDomains = Owned<Pick<Domains, 'find'>>;

interface AccountRouteParts {
  readonly accounts: OwnedAccounts;
  readonly domains: OwnedDomains;
  readonly tokens: Tokens;
  readonly appPasswords: OwnedAppPasswords;
  readonly database: Pick<Database, 'read'>;
}

/** The routes of accounts. */
export function accountRoutes(parts: AccountRouteParts): RouteGroup {
  const { accounts, domains, tokens, appPasswords } = parts;
  return (app) => {
    addCreate(app, accounts);
    addLists(app, accounts, domains);
    addReadAndUpdate(app, accounts);
    addDelete(app, parts);
    addPasswordAndToken(app, accounts, tokens);
    addAppPasswords(app, appPasswords);
  };
}

function addCreate(app: Api, accounts: OwnedAccounts): void {
  app.post('/v2/email-accounts/create', {
    config: {
      refusals: ['domain_not_found', 'domain_not_active', 'address_exists'],
      compress: false,
    },
    schema: {
      summary: 'Create an account',
      description: 'On an active domain of the user. The password is shown once.',
      operationId: 'createAccount',
      body: Type.Object({
        domain: DomainName,
        local_part: Text('The part before the @.', 'ada'),
        display_name: Type.Optional(Type.String({ examples: ['Ada'] })),
        user_id: UserId,
        password: Type.Optional(Password),
      }),
      response: { 201: OnceShown },
    },
    handler: async (request, reply) => {
      const { body } = request;
      const account = {
        ...ownerOf(request),
        domain: body.domain,
        localPart: body.local_part,
        displayName: body.display_name,
        password: body.password,
      };
      const within = answerWithin(request, 201, writeOnceShown);
      const made = await accounts.create(account, actorOf(request), within);
      return reply.code(201).send(writeOnceShown(made));
    },
  });
}

function addLists(app: Api, accounts: OwnedAccounts, domains: OwnedDomains): void {
  app.get('/v2/domains/:domain/email-accounts', {
    config: { refusals: ['domain_not_found'] },
    schema: {
      tags: ['Email accounts'],
      summary: "List a domain's accounts",
      description: 'Ordered by id: the oldest first, or the newest.',
      operationId: 'listDomainAccounts',
      params: Type.Object({ domain: DomainName }),
      querystring: Type.Object({ user_id: UserId, ...pageFields }),
      response: {
        200: Type.Object({ domain: DomainBody, items: Type.Array(AccountBody), ...pageEcho }),
      },
    },
    handler: async (request) => {
      const page = pageOf(request.query);
      const owner = ownerOf(request);
      const domain = await domains.find(owner, request.params.domain);
      const asked = { ...owner, domain: domain.name };
      const items = await accounts.list({ ...asked, ...page });
      const count = (most: number) => accounts.count(asked, most);
      const answer = await answerPage(items.map(writeAccount), page, count);
      return { domain: writeDomain(domain), ...answer };
    },
  });
  app.get('/v2/email-accounts', {
    config: { refusals: ['domain_not_found'] },
    schema: {
      summary: "List a user's accounts",
      description: 'Ordered by id: the oldest first, or the newest.',
      operationId: 'listAccounts',
      querystring: Type.Object({
        user_id: UserId,
        domain: Type.Optional(DomainName),
        ...pageFields,
      }),
      response: { 200: Type.Object({ items: Type.Array(AccountBody), ...pageEcho }) },
    },
    handler: async (request) => {
      const { query } = request;
      const page = pageOf(query);
      const asked = { ...ownerOf(request), domain: query.domain };
      const items = await accounts.list({ ...asked, ...page });
      return answerPage(items.map(writeAccount), page, (most) => accounts.count(asked, most));
    },
  });
}

function addReadAndUpdate(app: Api, accounts: OwnedAccounts): void {
  app.get('/v2/email-accounts/:id', {
    config: { refusals: ['account_not_found'] },
    schema: {
      summary: 'Read an account',
      operationId: 'getAccount',
      params: AccountPath,
      querystring: UserQuery,
      response: { 200: OneAccount },
    },
    handler: async (request) => ({
      account: writeAccount(await accounts.get(ownerOf(request), request.params.id)),
    }),
  });
  app.put('/v2/email-accounts/:id', {
    config: { refusals: ['account_not_found'] },
    schema: {
      summary: 'Update an account',
      description:
        'Changes the fields that are given. Mail to a suspended account is deferred, and its tokens stop at once.',
      operationId: 'updateAccount',
      params: AccountPath,
      body: Type.Object({
        user_id: UserId,
        display_name: Type.Optional(Type.String({ examples: ['Ada L.'] })),
        status: Type.Optional(OneOf(['active', 'suspended'], undefined, 'suspended')),
      }),
      response: { 200: OneAccount },
    },
    handler: async (request) => {
      const { params, body } = request;
      const changed = { displayName: body.display_name, status: body.status };
      const by = actorOf(request);
      const account = await accounts.update(ownerOf(request), params.id, changed, by);
      return { account: writeAccount(account) };
    },
  });
}

function addDelete(app: Api, { accounts, database }: AccountRouteParts): void {
  app.post('/v2/email-accounts/delete', {
    config: { refusals: ['account_not_found'] },
    schema: {
      summary: 'Delete an account',
      description: 'Also deletes its mail. Its tokens stop at once.',
      operationId: 'deleteAccount',
      body: Type.Object({ id: RecordId, user_id: UserId }),
      response: {
        200: Type.Object({
          ok: Type.Boolean(),
          deleted: Type.Object({
            id: RecordId,
            address: Type.String({ examples: ['ada@acme.test'] }),
          }),
        }),
      },
    },
    handler: async (request) => {
      const { id } = request.body;
      const owner = ownerOf(request);
      await accounts.get(owner, id);
      const recorded = { by: actorOf(request), counts: await contentsOfAccount(database.read, id) };
      const describe = (deleted: RemovedAccount) => ({ ok: true, deleted });
      const within = answerWithin(request, 200, describe);
      return describe(await accounts.remove(owner, id, recorded, within));
    },
  });
}

function addPasswordAndToken(app: Api, accounts: OwnedAccounts, tokens: Tokens): void {
  app.post('/v2/email-accounts/:id/password/reset', {
    config: { refusals: ['account_not_found'], compress: false },
    schema: {
      summary: "Reset an account's password",
      description:
        'The password is shown once. Tokens issued before, and app passwords, stop at once.',
      operationId: 'resetPassword',
      params: AccountPath,
      body: Type.Object({ user_id: UserId, password: Type.Optional(Password) }),
      response: { 200: OnceShown },
    },
    handler: async (request) => {
      const { password } = request.body;
      const { id } = request.params;
      const by = actorOf(request);
      const owner = ownerOf(request);
      const within = answerWithin(request, 200, writeOnceShown);
      return writeOnceShown(await accounts.resetPassword(owner, id, password, by, within));
    },
  });
  app.post('/v2/email-accounts/:id/token', {
    config: {
      refusals: ['account_not_found', 'account_inactive'],
      compress: false,
      takesKey: false,
      onlyReads: true,
    },
    schema: {
      summary: 'Issue a token for an account',
      description: 'Opens /mail and /ws without the password, for an app of the user.',
      operationId: 'issueToken',
      params: AccountPath,
      body: Type.Object({ user_id: UserId }),
      response: { 200: TokenBody },
    },
    handler: async (request) =>
      writeToken(await tokens.issue(await accounts.get(ownerOf(request), request.params.id))),
  });
}
