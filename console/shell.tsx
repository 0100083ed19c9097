/** What stands around every screen: the menu, the theme, signing out. */
import { defineComponent, onMounted, ref, watch } from 'vue';
import { RouterLink, RouterView, useRoute } from 'vue-router';
import { session, signOut } from './api/client.ts';
import { asApiError } from './api/load.ts';
import { menu } from './router.ts';
import { theme, themes } from './theme.ts';
import { Questions } from './ui/dialogs.tsx';
import { Messages, say } from './ui/messages.tsx';

export const Shell = defineComponent(() => {
  const route = useRoute();
  const isMenuOpen = ref(false);
  watch(
    () => route.fullPath,
    () => {
      isMenuOpen.value = false;
    },
  );
  const toggle = () => {
    isMenuOpen.value = !isMenuOpen.value;
  };
  const closeByEscape = (event: KeyboardEvent) => {
    if (event.key === 'Escape') isMenuOpen.value = false;
  };
  onMounted(() => addEventListener('keydown', closeByEscape));
  return () => (
    <div class={['shell', { alone: !session.current }]}>
      <a class="skip" href="#main">
        To the content
      </a>
      <header class="bar">
        {session.current && (
          <button
            type="button"
            class="plain burger"
            aria-expanded={isMenuOpen.value}
            aria-controls="menu"
            onClick={toggle}
          >
            Menu
          </button>
        )}
        <RouterLink class="name" to="/">
          {() => [<Mark />, 'Postroom', <span class="soft">console</span>]}
        </RouterLink>
        {session.current && (
          <button type="button" class="plain sign-out" onClick={() => void leave()}>
            Sign out
          </button>
        )}
      </header>
      {session.current && <Menu isOpen={isMenuOpen.value} />}
      <main id="main" tabindex="-1">
        <RouterView key={route.path} />
      </main>
      <Questions />
      <Messages />
    </div>
  );
});

function Menu({ isOpen }: { isOpen: boolean }) {
  return (
    <nav id="menu" class={['menu', { open: isOpen }]} aria-label="Console">
      <ul>
        {menu.map(({ path, title }) => (
          <li key={path}>
            <RouterLink to={path} activeClass={path === '/' ? '' : 'here'} exactActiveClass="here">
              {() => title}
            </RouterLink>
          </li>
        ))}
      </ul>
      <ul class="elsewhere">
        <li>
          <a href="/docs/guides/console">Documentation</a>
        </li>
        <li>
          <a href="/docs/inbox/">Live inbox</a>
        </li>
        <li>
          <Colours />
        </li>
      </ul>
    </nav>
  );
}

function Colours() {
  const choose = (event: Event) => {
    theme.value = (event.target as HTMLSelectElement).value;
  };
  return (
    <div class="colours">
      <label for="colours">Colours</label>
      <select id="colours" value={theme.value} onChange={choose}>
        {themes.map(([name, label]) => (
          <option key={name} value={name}>
            {label}
          </option>
        ))}
      </select>
    </div>
  );
}

async function leave(): Promise<void> {
  try {
    await signOut();
  } catch (error) {
    say(`Signing out failed, the session ends later: ${asApiError(error).message}`, 'bad');
  }
}

const Mark = () => (
  <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
    <rect x="2" y="6" width="28" height="20" rx="3" fill="#c8402f" />
    <path
      d="M4.5 9.5 16 18.5l11.5-9"
      fill="none"
      stroke="#fff"
      stroke-width="2.4"
      stroke-linecap="round"
      stroke-linejoin="round"
    />
  </svg>
);
