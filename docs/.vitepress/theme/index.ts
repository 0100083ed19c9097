import type { Theme } from 'vitepress';
import DefaultTheme from 'vitepress/theme-without-fonts';
import Layout from './Layout.vue';
import MessageWay from './MessageWay.vue';
import TryIt from './TryIt.vue';
import './theme.css';

export default {
  extends: DefaultTheme,
  Layout,
  enhanceApp({ app }) {
    app.component('MessageWay', MessageWay);
    app.component('TryIt', TryIt);
  },
} satisfies Theme;
