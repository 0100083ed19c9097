/** Builds what an operator reaches: the routes below /v2/operator, and the sessions of the console. */
import type { ApiOptions, RouteGroup } from '../api/api.ts';
import type { Database } from '../database/database.ts';
import type { OpenLimit } from '../net/net.ts';
import {
  auditRoutes,
  ConsoleSessions,
  consoleCookie,
  sessionFinder,
  sessionRoutes,
  signInRoute,
} from '../operator/operator.ts';

interface OperatorParts {
  readonly database: Database;
  readonly apiKeys: readonly string[];
  readonly openLimit: OpenLimit;
  readonly now: () => number;
  readonly publicUrl: () => string;
}

interface OperatorAccess {
  readonly console: NonNullable<ApiOptions['console']>;
  readonly routes: readonly RouteGroup[];
}

export function buildOperator(parts: OperatorParts): OperatorAccess {
  const sessions = new ConsoleSessions(parts);
  const cookie = consoleCookie(parts.publicUrl);
  return {
    console: {
      findSession: sessionFinder(sessions, cookie),
      signIn: signInRoute(sessions, cookie),
    },
    routes: [sessionRoutes(sessions, cookie), auditRoutes(parts.database)],
  };
}
