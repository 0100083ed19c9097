/** Which path shows which screen, and who has to sign in first. */
import { watch } from 'vue';
import {
  createRouter,
  createWebHistory,
  type RouteLocationNormalizedLoaded,
  type RouteRecordRaw,
} from 'vue-router';
import { session } from './api/client.ts';
import { Account } from './screens/account.tsx';
import { Accounts } from './screens/accounts.tsx';
import { Audit } from './screens/audit.tsx';
import { Blocks } from './screens/blocks.tsx';
import { Deliveries } from './screens/deliveries.tsx';
import { Domain } from './screens/domain.tsx';
import { Domains } from './screens/domains.tsx';
import { Keys } from './screens/keys.tsx';
import { Messages } from './screens/messages.tsx';
import { Nodes } from './screens/nodes.tsx';
import { NotFound } from './screens/not-found.tsx';
import { Overview } from './screens/overview.tsx';
import { Queue } from './screens/queue.tsx';
import { Settings } from './screens/settings.tsx';
import { SignIn } from './screens/sign-in.tsx';

const routes: RouteRecordRaw[] = [
  { path: '/', component: Overview, meta: { title: 'Overview' } },
  // One screen: the list stays while a message is opened beside it.
  { path: '/messages', component: Messages, meta: { title: 'Messages', screen: 'messages' } },
  { path: '/messages/:id', component: Messages, meta: { title: 'Message', screen: 'messages' } },
  // Where they were in 0.3.0.
  { path: '/mail/:id?', redirect: ({ params }) => ({ path: `/messages/${params.id ?? ''}` }) },
  { path: '/domains', component: Domains, meta: { title: 'Domains' } },
  { path: '/domains/:domain', component: Domain, meta: { title: 'Domain' } },
  { path: '/accounts', component: Accounts, meta: { title: 'Accounts' } },
  { path: '/accounts/:id', component: Account, meta: { title: 'Account' } },
  { path: '/queue', component: Queue, meta: { title: 'Queue' } },
  { path: '/queue/deliveries', component: Deliveries, meta: { title: 'Deliveries' } },
  { path: '/blocks', component: Blocks, meta: { title: 'Blocks' } },
  { path: '/keys', component: Keys, meta: { title: 'Keys' } },
  { path: '/nodes', component: Nodes, meta: { title: 'Nodes' } },
  { path: '/settings', component: Settings, meta: { title: 'Settings' } },
  { path: '/audit', component: Audit, meta: { title: 'Audit' } },
  { path: '/sign-in', component: SignIn, meta: { title: 'Sign in', isOpen: true } },
  { path: '/:path(.*)', component: NotFound, meta: { title: 'Nothing is here' } },
];

/** The screens of the menu, in groups: those of the table above that stand for themselves. */
export const menu = [
  ['/', '/messages', '/queue', '/domains', '/accounts'],
  ['/blocks', '/keys'],
  ['/nodes', '/settings', '/audit'],
].map((paths) =>
  paths.map((path) => ({
    path,
    title: String(routes.find((route) => route.path === path)?.meta?.title),
  })),
);

/** What tells a screen from another: a path, or several with the same name; and of a domain whose claim it is. */
export const screenOf = ({ path, query, meta }: RouteLocationNormalizedLoaded): string =>
  typeof meta.screen === 'string' ? meta.screen : `${path} ${query.user_id ?? ''}`;

export const router = createRouter({
  history: createWebHistory('/console/'),
  routes,
  scrollBehavior: (to, from, saved) =>
    saved ?? (screenOf(to) === screenOf(from) ? false : { top: 0 }),
});

router.beforeEach((to) => {
  if (session.current) return to.path === '/sign-in' ? nextOf(to.query.next) : true;
  if (to.meta.isOpen) return true;
  return { path: '/sign-in', query: to.fullPath === '/' ? {} : { next: to.fullPath } };
});

router.afterEach((to, from) => {
  document.title = `${to.meta.title ?? 'Console'} · Postroom`;
  // As the loading of a page would: a screen reader reads the new heading. A drawer takes and returns the focus by itself.
  if (screenOf(to) !== screenOf(from) && from.matched.length > 0) {
    requestAnimationFrame(() => {
      if (document.querySelector('.drawer')) return;
      const place = to.hash && document.getElementById(to.hash.slice(1));
      (place || document.querySelector('h1'))?.focus();
    });
  }
});

// A session that ends leads to the sign-in and from there back.
watch(
  () => session.current,
  (current) => {
    const now = router.currentRoute.value;
    if (!current && !now.meta.isOpen) {
      void router.push({ path: '/sign-in', query: { next: now.fullPath } });
    } else if (current && now.path === '/sign-in') {
      void router.push(nextOf(now.query.next));
    }
  },
);

/** Where to go after the sign-in: a path of the console, never another site. */
function nextOf(next: unknown): string {
  return typeof next === 'string' && /^\/(?![/\\])/.test(next) ? next : '/';
}
