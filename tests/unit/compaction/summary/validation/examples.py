"""Conversations and summaries of them, as people and models write them, in three languages."""

from dataclasses import dataclass, replace

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.summary.prompt import DEFAULT_INSTRUCTION
from chat_proxy.compaction.summary.validation.sections import Sections
from chat_proxy.compaction.summary.validation.task import SummaryTask, summary_task
from chat_proxy.compaction.summary.validation.template import sections_of
from chat_proxy.compaction.summary.validation.validate import SummaryAnswer, Verdict, verdict
from chat_proxy.tokens.token_counter import rough_tokens
from tests.unit.chat.shapes import Fields, call, conversation, result, says, system, user

BUILT_IN = sections_of(DEFAULT_INSTRUCTION)

GOOD = """## Goal
- Fix the build
## Constraints & Preferences
- Never touch main
## Progress
### Done
- read app/main.py
### In Progress
- (none)
### Blocked
- (none)
## Key Decisions
- (none)
## Next Steps
- run the tests
## Critical Context
- OSError: gone
## Relevant Files
- app/main.py"""


@dataclass(frozen=True)
class Example:
    """A conversation, what a good summary says about it, and what an invented one says."""

    messages: list[Fields]
    good: str
    invented: str

    @property
    def conversation(self) -> Conversation:
        return conversation(*self.messages)


def runs(name: str, arguments: str) -> Fields:
    """Return a call of a tool."""
    return says(None, tool_calls=[call(name, arguments)])


def task_of(
    *messages: Fields,
    previous: str = "",
    replaced: int | None = None,
    sections: Sections = BUILT_IN,
    needs_sections: bool = True,
) -> SummaryTask:
    """Return the task to summarise these messages, which have about so many tokens."""
    given = conversation(*messages)
    texts = "\n".join(text for message in given.messages for _, text in message.pieces())
    tokens = rough_tokens(texts) + rough_tokens(previous) if replaced is None else replaced
    span = [message for message in given.messages if not message.is_instruction]
    task = summary_task(given, span, previous, tokens, sections)
    return replace(task, needs_sections=needs_sections)


def judge(text: str, span: str = "", replaced: int = 10_000) -> Verdict:
    """Check a summary of a span that is mostly media, so that texts need not agree."""
    return check(text, task_of(user(span), replaced=replaced))


def check(text: str, task: SummaryTask) -> Verdict:
    """Check a text as an answer that ended well."""
    return verdict(SummaryAnswer(text), task, rough_tokens)


def in_sections(**bodies: str) -> str:
    """Return a summary of the built-in form with these bodies; `critical_context="- fact"`."""
    lines = []
    for section in BUILT_IN:
        name = section.title.replace(" & ", " ").replace(" ", "_").lower()
        lines += [f"## {section.title}", bodies.get(name, "- (none)")]
    return "\n".join(lines)


CODING = Example(
    [
        system("You are a coding agent. Be careful with weddings of branches."),
        user(
            "The nightly export in reports/export.py fails with UnicodeDecodeError since Monday. "
            "Find out why and fix it. Do not change the CSV format, finance depends on it, and "
            "never run anything against the production database."
        ),
        runs("1", '{"path": "reports/export.py"}'),
        result("1", "def export(rows, path):\n    with open(path, 'w') as sink:\n        ...\n"),
        says("export() opens the file without an encoding; the container has LANG=C since 4.2."),
        user("Right, we moved to the slim image on Monday. Does load_rows have the same problem?"),
        runs("2", '{"path": "reports/load.py"}'),
        result("2", "def load_rows(path):\n    return list(csv.reader(open(path)))\n"),
        says("Yes. load_rows() reads with the locale's encoding as well. I set utf-8 in both."),
        user("Good. Add a test for an umlaut in a customer name before you go on."),
        runs("3", '{"command": "pytest tests/test_export.py -k umlaut"}'),
        result("3", "1 passed in 0.21s"),
        says("tests/test_export.py has test_umlaut_survives now and it passes."),
    ],
    good=(
        "- Repair the nightly CSV export, which broke with a UnicodeDecodeError after the switch "
        "to the slim image\n"
        "- The CSV format must stay, finance relies on it; production database is off limits\n"
        "- Cause: reports/export.py and load_rows in reports/load.py used the locale's encoding, "
        "and LANG=C applies in the new container; both now open files as utf-8\n"
        "- Regression test test_umlaut_survives was added to tests/test_export.py and is green"
    ),
    invented=(
        "- Migrate the checkout page from Vue 2 to Vue 3 and replace the Vuex store by Pinia\n"
        "- Keep Internet Explorer out of the browser list, the customer Hansen agreed\n"
        "- src/components/CartSummary.vue and src/store/cart.ts are finished; payment with Stripe "
        "is still open because of webhook signatures\n"
        "- Deploy to Netlify on 14 March after review by Priya"
    ),
)

TALK = Example(
    [
        user("My sister Nora turns forty on 12 March and I want to surprise her. Any ideas?"),
        says("How lovely! What does she enjoy? A trip, a dinner, something to make together?"),
        user(
            "She loves pottery and hates big crowds. Our cousin Emil could bring her to Bergen, "
            "he drives there anyway. The budget is about 300 euros."
        ),
        says("Then a small pottery workshop in Bergen for six people would suit her well."),
        user("Six is right: Nora, Emil, me, mum, and her friends Ada and Lin. Lin is vegan."),
        says("I suggest Saturday the 14th, a workshop from two to five, and dinner afterwards."),
        user("Saturday is fine, but not later than nine, mum has to catch the last ferry."),
        says("Noted: dinner with vegan options, and everyone leaves by nine for the ferry."),
    ],
    good=(
        "- The user plans a surprise for the fortieth birthday of their sister Nora (12 March)\n"
        "- Plan: pottery workshop in Bergen on Saturday 14th, two to five, then dinner; must end "
        "by nine because their mother takes the last ferry\n"
        "- Guests: Nora, cousin Emil (drives her), the user, mum, friends Ada and Lin (vegan)\n"
        "- Budget 300 euros; Nora dislikes crowds"
    ),
    invented=(
        "- The patient Mr. Okafor complains about headaches since his operation in January\n"
        "- Doctor Weiss prescribed Ibuprofen twice a day and ordered an MRI in Leeds\n"
        "- His wife Grace asked whether he may drive again; the insurance needs form B7\n"
        "- Next appointment on 3 June, bring earlier x-rays"
    ),
)

GERMAN = Example(
    [
        user(
            "Unser Verein möchte im September ein Sommerfest im Stadtpark machen. Wir rechnen mit "
            "150 Gästen und haben 2.000 Euro. Hilf mir beim Planen, bitte immer mit Du."
        ),
        says("Gern! Hast Du die Genehmigung vom Grünflächenamt schon beantragt?"),
        user(
            "Noch nicht, das macht Frau Lindner bis Ende Juni. Getränke liefert die Brauerei "
            "Hofmeister. Eine Hüpfburg wollen wir nicht, letztes Jahr hat sich ein Kind verletzt."
        ),
        says("Verstanden, keine Hüpfburg. Wie sieht es mit Musik und Strom aus?"),
        user("Die Blaskapelle spielt ab 16 Uhr. Den Strom gibt uns das Café am Teich."),
        says("Dann fehlen noch Bänke, Toiletten und ein Plan für schlechtes Wetter."),
        user("Bei Regen gehen wir in die Turnhalle, Hausmeister Özdemir weiß Bescheid."),
    ],
    good=(
        "- Der Verein des Nutzers plant ein Sommerfest im Stadtpark im September, etwa 150 Gäste, "
        "Budget 2.000 Euro\n"
        "- Anrede: Du; keine Hüpfburg, weil sich voriges Jahr ein Kind verletzte\n"
        "- Frau Lindner beantragt bis Ende Juni die Genehmigung beim Grünflächenamt; die Brauerei "
        "Hofmeister bringt Getränke, das Café am Teich stellt Strom, die Blaskapelle beginnt um "
        "16 Uhr\n"
        "- Ausweichort bei Regen: Turnhalle (Hausmeister Özdemir). Offen sind Bänke und Toiletten"
    ),
    invented=(
        "- Die Nutzerin sucht eine Wohnung in Leipzig mit drei Zimmern und Balkon, höchstens 950 "
        "Euro warm\n"
        "- Der Makler Herr Petersen bot zwei Besichtigungen in Plagwitz an; die Katze muss erlaubt "
        "sein\n"
        "- Sie kündigt ihren Mietvertrag zum Jahresende und braucht noch eine Schufa-Auskunft\n"
        "- Entscheidung: lieber Altbau als Neubau wegen der hohen Decken"
    ),
)

GERMAN_CODING = Example(
    [
        user(
            "Der Build bricht ab, weil vite das Paket lodash-es nicht findet. Bitte behebe das, "
            "aber ändere die package-lock.json nicht von Hand."
        ),
        runs("1", '{"command": "npm ls lodash-es"}'),
        result("1", "shop@2.1.0 /app\n└── (empty)\nnpm ERR! missing: lodash-es@^4.17.21"),
        says("lodash-es steht in der package.json, ist aber nicht installiert."),
        user("Dann installiere es. Danach soll der Warenkorb wieder Preise mit Komma anzeigen."),
        runs("2", '{"command": "npm ci"}'),
        result("2", "added 1 package in 3s"),
        says("Nach npm ci läuft der Build. In src/cart/format.ts fehlt noch die Locale de-DE."),
    ],
    good=(
        "- Ziel: abgebrochenen Build reparieren (vite fand lodash-es nicht), danach Preise im "
        "Warenkorb wieder mit Komma\n"
        "- package-lock.json nie manuell bearbeiten\n"
        "- Ursache war ein fehlendes Paket trotz Eintrag in package.json; npm ci hat geholfen\n"
        "- Nächster Schritt: Locale de-DE in src/cart/format.ts ergänzen"
    ),
    invented=(
        "- Ziel: die Steuererklärung für 2025 vorbereiten, Belege der Photovoltaikanlage ordnen\n"
        "- Das Finanzamt Freiburg verlangt die Unterlagen bis zum 31. Juli\n"
        "- Steuerberaterin Frau Krüger hat die Abschreibung über zwanzig Jahre empfohlen\n"
        "- Offen: Nachweis der Einspeisevergütung vom Netzbetreiber"
    ),
)

CHINESE = Example(
    [
        user("下个月我们全家要去成都玩五天,有我、爱人、七岁的女儿和我母亲。帮我安排一下行程。"),
        says("好的!请问你们几号出发?老人家和孩子有什么特别的要求吗?"),
        user("六号早上从西安坐高铁出发,十号晚上回来。母亲膝盖不好,不能爬山,女儿最想看大熊猫。"),
        says("明白了。第一天先休息,第二天早上去熊猫基地,避开人多的时段。"),
        user("酒店订在春熙路附近,预算每晚五百元以内。还有,爱人对花生过敏,吃饭要注意。"),
        says("没问题。我会避开担担面等含有花生的小吃,另外推荐都江堰半日游,不需要爬山。"),
        user("都江堰可以,青城山就不去了。最后一天想买点蜀绣送给同事王芳。"),
    ],
    good=(
        "- 用户一家四口(爱人、七岁女儿、母亲)下月六号至十号去成都旅游五天,从西安坐高铁往返\n"
        "- 母亲膝盖不好,不能爬山,所以不去青城山;女儿想看大熊猫,第二天早上去熊猫基地\n"
        "- 酒店在春熙路附近,每晚预算五百元;爱人对花生过敏\n"
        "- 都江堰安排半日游,最后一天买蜀绣送同事王芳"
    ),
    invented=(
        "- 患者六十二岁,三年前确诊糖尿病,目前服用二甲双胍,最近血糖偏高\n"
        "- 医生建议调整饮食结构并增加运动量,两周之后到门诊复查\n"
        "- 护士小刘负责电话随访,家属希望了解胰岛素的副作用\n"
        "- 保险公司尚未批准住院费用"
    ),
)

CHINESE_CODING = Example(
    [
        user(
            "订单服务在凌晨两点经常超时,日志里有 RedisTimeoutError。请查一下原因,不要重启线上服务。"
        ),
        runs("1", '{"command": "grep -n timeout services/order/cache.py"}'),
        result("1", "31:    client = Redis(host=HOST, socket_timeout=0.5)\n32:    pool = None"),
        says("services/order/cache.py 没有使用连接池,每次请求都会新建连接,凌晨备份时就会超时。"),
        user("那就改成连接池,最大连接数设为五十。改完以后先在测试环境压测,再告诉我结果。"),
        runs("2", '{"command": "make loadtest ENV=staging"}'),
        result("2", "requests=20000 errors=0 p99=41ms"),
        says("已经改成连接池。测试环境压测两万次请求没有错误,p99 是 41 毫秒。"),
    ],
    good=(
        "- 目标:查清订单服务凌晨超时(RedisTimeoutError)的原因并修复,不能重启线上服务\n"
        "- 原因:services/order/cache.py 每次新建连接,没有连接池,备份期间超时\n"
        "- 已改用连接池,最大连接数五十;测试环境压测两万次请求没有错误,p99 为 41 毫秒\n"
        "- 下一步:把压测结果告诉用户"
    ),
    invented=(
        "- 目标:把公司官网改版为响应式设计,首页需要新的轮播图和视频背景\n"
        "- 设计师阿敏要求统一使用思源黑体,主色调改成深绿色\n"
        "- 已完成导航栏和页脚,联系我们页面还缺少地图插件\n"
        "- 客户希望在国庆节之前上线"
    ),
)

EXAMPLES = {
    "coding": CODING,
    "talk": TALK,
    "German talk": GERMAN,
    "German coding": GERMAN_CODING,
    "Chinese talk": CHINESE,
    "Chinese coding": CHINESE_CODING,
}
