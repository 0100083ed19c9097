import type { Theme } from 'vitepress';
import DefaultTheme from 'vitepress/theme-without-fonts';
import MessageWay from './MessageWay.vue';
import SiteLayout from './SiteLayout.vue';
import TryIt from './TryIt.vue';
import './theme.css';

export default {
  extends: DefaultTheme,
  Layout: SiteLayout,
  enhanceApp({ app }) {
    app.component('MessageWay', MessageWay);
    app.component('TryIt', TryIt);
  },
} satisfies Theme;
