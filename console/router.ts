/** Which path shows which screen, and who has to sign in first. */
import { watch } from 'vue';
import { createRouter, createWebHistory, type RouteRecordRaw } from 'vue-router';
import { session } from './api/client.ts';
import { NotFound } from './screens/not-found.tsx';
import { Overview } from './screens/overview.tsx';
import { SignIn } from './screens/sign-in.tsx';

/** A screen with a place in the menu. */
export interface MenuItem {
  readonly path: string;
  readonly title: string;
}

const routes: RouteRecordRaw[] = [
  { path: '/', component: Overview, meta: { title: 'Overview' } },
  { path: '/sign-in', component: SignIn, meta: { title: 'Sign in', isOpen: true } },
  { path: '/:path(.*)', component: NotFound, meta: { title: 'Nothing is here' } },
];

/** The menu, in its order. */
export const menu: readonly MenuItem[] = [{ path: '/', title: 'Overview' }];

export const router = createRouter({
  history: createWebHistory('/console/'),
  routes,
  scrollBehavior: (_to, _from, saved) => saved ?? { top: 0 },
});

router.beforeEach((to) => {
  if (session.current) return to.path === '/sign-in' ? nextOf(to.query.next) : true;
  if (to.meta.isOpen) return true;
  return { path: '/sign-in', query: to.fullPath === '/' ? {} : { next: to.fullPath } };
});

router.afterEach((to, from) => {
  document.title = `${to.meta.title ?? 'Console'} · Postroom`;
  // As the loading of a page would: a screen reader reads the new heading.
  if (to.path !== from.path && from.matched.length > 0) {
    requestAnimationFrame(() => document.querySelector<HTMLElement>('h1')?.focus());
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
