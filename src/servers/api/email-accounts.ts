/**
 * Section 4.2 of the contract: mailbox accounts and their passwords, and tokens for them.
 */
import { Type } from 'typebox';
import type {
  Account,
  Accounts,
  AccountWithPassword,
  RemovedAccount,
  Tokens,
} from '../../tenants/accounts/accounts.ts';
import type { Domains } from '../../tenants/domains/domains.ts';
import { TokenBody, writeToken } from './mail-tokens.ts';
import { answerWithin } from './repeat-safely.ts';
import {
  DomainBody,
  DomainName,
  isoTime,
  pageEcho,
  pageFields,
  pageOf,
  RecordId,
  UserId,
  UserQuery,
  writeDomain,
} from './schemas.ts';
import { type Api, actorOf, type ContentsCounter, credentials, type RouteGroup } from './server.ts';

const AccountBody = Type.Object(
  {
    id: RecordId,
    user_id: UserId,
    domain: DomainName,
    local_part: Type.String({ examples: ['ada'] }),
    address: Type.String({ description: '`local_part@domain`.', examples: ['ada@acme.test'] }),
    display_name: Type.String({ examples: ['Ada'] }),
    status: Type.String({ description: '`active` or `suspended`.', examples: ['active'] }),
    is_default: Type.Boolean({ description: "Whether it is its user's oldest account." }),
    created_at: Type.String({ format: 'date-time', examples: ['2026-01-31T12:00:00.000Z'] }),
  },
  { title: 'EmailAccount', description: 'A mailbox account of a user on one of its domains.' },
);

const OneAccount = Type.Object({ account: AccountBody });

const OnceShown = Type.Object(
  {
    account: AccountBody,
    password: Type.String({
      description: 'Shown only here.',
      examples: ['correct horse'],
    }),
    note: Type.String({ examples: ['Save this password now: it is not shown again.'] }),
  },
  { title: 'AccountWithPassword', description: 'An account whose password was just set.' },
);

const NOTE = 'Save this password now: it is not shown again.';

const AccountPath = Type.Object({ id: RecordId });

const Password = Type.String({
  description: 'At least 8 characters; generated when left out.',
  examples: ['correct horse'],
});

const common = { tags: ['Email accounts'], security: credentials.apiKey };

function writeAccount(account: Account): Type.Static<typeof AccountBody> {
  return {
    id: account.id,
    user_id: account.userId,
    domain: account.domain,
    local_part: account.localPart,
    address: account.address,
    display_name: account.displayName,
    status: account.status,
    is_default: account.isDefault,
    created_at: isoTime(account.createdAt),
  };
}

function writeOnceShown(made: AccountWithPassword): Type.Static<typeof OnceShown> {
  return { account: writeAccount(made.account), password: made.password, note: NOTE };
}

interface AccountRouteParts {
  readonly accounts: Accounts;
  readonly domains: Domains;
  readonly tokens: Tokens;
  readonly contents?: ContentsCounter;
}

/** The routes of accounts. */
export function accountRoutes(parts: AccountRouteParts): RouteGroup {
  const { accounts, domains, tokens } = parts;
  return (app) => {
    addCreate(app, accounts);
    addListOfDomain(app, accounts, domains);
    addList(app, accounts);
    addReadAndUpdate(app, accounts);
    addDelete(app, parts);
    addPasswordReset(app, accounts);
    addToken(app, accounts, tokens);
  };
}

function addCreate(app: Api, accounts: Accounts): void {
  app.post(
    '/v2/email-accounts/create',
    {
      config: {
        refusals: ['domain_not_found', 'domain_not_active', 'address_exists'],
        compress: false,
      },
      schema: {
        ...common,
        summary: 'Create an account',
        description: 'On an active domain of the user. The password is shown once.',
        operationId: 'createAccount',
        body: Type.Object({
          domain: DomainName,
          local_part: Type.String({ description: 'The part before the @.', examples: ['ada'] }),
          display_name: Type.Optional(Type.String({ examples: ['Ada'] })),
          user_id: UserId,
          password: Type.Optional(Password),
        }),
        response: { 201: OnceShown },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const account = {
        userId: body.user_id,
        domain: body.domain,
        localPart: body.local_part,
        displayName: body.display_name,
        password: body.password,
      };
      const within = answerWithin(request, 201, writeOnceShown);
      const made = await accounts.create(account, actorOf(request), within);
      return reply.code(201).send(writeOnceShown(made));
    },
  );
}

function addListOfDomain(app: Api, accounts: Accounts, domains: Domains): void {
  app.get(
    '/v2/domains/:domain/email-accounts',
    {
      config: { refusals: ['domain_not_found'] },
      schema: {
        ...common,
        summary: "List a domain's accounts",
        description: 'Ordered by id.',
        operationId: 'listDomainAccounts',
        params: Type.Object({ domain: DomainName }),
        querystring: Type.Object({ user_id: UserId, ...pageFields }),
        response: {
          200: Type.Object({ domain: DomainBody, items: Type.Array(AccountBody), ...pageEcho }),
        },
      },
    },
    async ({ params, query }) => {
      const page = pageOf(query);
      const domain = await domains.find(query.user_id, params.domain);
      const items = await accounts.list({ userId: query.user_id, domain: domain.name, ...page });
      return { domain: writeDomain(domain), items: items.map(writeAccount), ...page };
    },
  );
}

function addList(app: Api, accounts: Accounts): void {
  app.get(
    '/v2/email-accounts',
    {
      config: { refusals: ['domain_not_found'] },
      schema: {
        ...common,
        summary: "List a user's accounts",
        description: 'Ordered by id.',
        operationId: 'listAccounts',
        querystring: Type.Object({
          user_id: UserId,
          domain: Type.Optional(DomainName),
          ...pageFields,
        }),
        response: { 200: Type.Object({ items: Type.Array(AccountBody), ...pageEcho }) },
      },
    },
    async ({ query }) => {
      const page = pageOf(query);
      const items = await accounts.list({ userId: query.user_id, domain: query.domain, ...page });
      return { items: items.map(writeAccount), ...page };
    },
  );
}

function addReadAndUpdate(app: Api, accounts: Accounts): void {
  app.get(
    '/v2/email-accounts/:id',
    {
      config: { refusals: ['account_not_found'] },
      schema: {
        ...common,
        summary: 'Read an account',
        operationId: 'getAccount',
        params: AccountPath,
        querystring: UserQuery,
        response: { 200: OneAccount },
      },
    },
    async ({ params, query }) => ({
      account: writeAccount(await accounts.get(query.user_id, params.id)),
    }),
  );
  app.put(
    '/v2/email-accounts/:id',
    {
      config: { refusals: ['account_not_found'] },
      schema: {
        ...common,
        summary: 'Update an account',
        description:
          'Changes the fields that are given. Mail to a suspended account is deferred, and its tokens stop at once.',
        operationId: 'updateAccount',
        params: AccountPath,
        body: Type.Object({
          user_id: UserId,
          display_name: Type.Optional(Type.String({ examples: ['Ada L.'] })),
          status: Type.Optional(
            Type.Enum(['active', 'suspended'], { type: 'string', examples: ['suspended'] }),
          ),
        }),
        response: { 200: OneAccount },
      },
    },
    async (request) => {
      const { params, body } = request;
      const changed = { displayName: body.display_name, status: body.status };
      const by = actorOf(request);
      const account = await accounts.update(body.user_id, params.id, changed, by);
      return { account: writeAccount(account) };
    },
  );
}

function addDelete(app: Api, { accounts, contents }: AccountRouteParts): void {
  app.post(
    '/v2/email-accounts/delete',
    {
      config: { refusals: ['account_not_found'] },
      schema: {
        ...common,
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
    },
    async (request) => {
      const { user_id: userId, id } = request.body;
      await accounts.get(userId, id);
      const recorded = { by: actorOf(request), counts: await contents?.ofAccount(id) };
      const describe = (deleted: RemovedAccount) => ({ ok: true, deleted });
      const within = answerWithin(request, 200, describe);
      return describe(await accounts.remove(userId, id, recorded, within));
    },
  );
}

function addPasswordReset(app: Api, accounts: Accounts): void {
  app.post(
    '/v2/email-accounts/:id/password/reset',
    {
      config: { refusals: ['account_not_found'], compress: false },
      schema: {
        ...common,
        summary: "Reset an account's password",
        description: 'The password is shown once. Tokens issued before stop at once.',
        operationId: 'resetPassword',
        params: AccountPath,
        body: Type.Object({ user_id: UserId, password: Type.Optional(Password) }),
        response: { 200: OnceShown },
      },
    },
    async (request) => {
      const { user_id: userId, password } = request.body;
      const { id } = request.params;
      const by = actorOf(request);
      const within = answerWithin(request, 200, writeOnceShown);
      return writeOnceShown(await accounts.resetPassword(userId, id, password, by, within));
    },
  );
}

function addToken(app: Api, accounts: Accounts, tokens: Tokens): void {
  app.post(
    '/v2/email-accounts/:id/token',
    {
      config: {
        refusals: ['account_not_found', 'account_inactive'],
        compress: false,
        takesKey: false,
      },
      schema: {
        ...common,
        summary: 'Issue a token for an account',
        description: 'Opens /mail and /ws without the password, for an app of the user.',
        operationId: 'issueToken',
        params: AccountPath,
        body: Type.Object({ user_id: UserId }),
        response: { 200: TokenBody },
      },
    },
    async ({ params, body }) =>
      writeToken(await tokens.issue(await accounts.get(body.user_id, params.id))),
  );
}
