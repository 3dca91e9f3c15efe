"""The chat that is held: a user plans a summer evening in 28 turns and states 14 facts."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SYSTEM: Final = {"role": "system", "content": "You are a helpful assistant. Answer briefly."}


@dataclass(frozen=True)
class Fact:
    """Something that the user said in one turn, and the words by which a prompt is known to say it.

    All words must stand in one line: a number without its meaning is of no use.
    """

    kind: str
    turn: int
    words: tuple[str, ...]

    def is_in(self, texts: Iterable[str]) -> bool:
        """Return whether one line of the texts has all of the words."""
        lines = (line.casefold() for text in texts for line in text.splitlines())
        return any(all(word.casefold() in line for word in self.words) for line in lines)


FACTS: Final = (
    Fact("name", 1, ("Ilse Brandvold",)),
    Fact("allergy", 2, ("allergic", "hazelnuts")),
    Fact("date", 3, ("Saturday 21 June",)),
    Fact("deadline", 4, ("permit", "14 March")),
    Fact("number: budget", 6, ("4,350", "euros")),
    Fact("number: helpers", 8, ("27", "volunteers")),
    Fact("diet", 9, ("Tomas", "no meat")),
    Fact("number: discount", 10, ("baker", "15 percent")),
    Fact("number: power", 11, ("3,600", "watts")),
    Fact("preference", 13, ("prefer", "live music")),
    Fact("limit: speeches", 14, ("speak", "ten minutes")),
    Fact("rule", 15, ("never", "phone numbers")),
    Fact("number: tables", 16, ("38 tables",)),
    Fact("decision", 18, ("Lindqvist barn",)),
)

_TALK: Final = """\
Hello! My name is Ilse Brandvold and I have been asked to organise the summer evening of our
village this year. I have never done anything like it, the woman who did it for ages moved to the
coast last autumn, and all that she left behind is a box with receipts and a few photos of people
dancing. Where would you begin if you were me? I have a free afternoon and a lot of tea.

Thanks. One thing before we talk about food, because it has gone wrong at parties before: I am
allergic to hazelnuts. Please always remember that. My sister once brought a cake and had no idea
what was in it, and we spent the night in the waiting room of the clinic. So, what kind of food
works outdoors for people of all ages, from toddlers to my neighbour who is over ninety?

Good ideas. I went through the box today. Most of the receipts are for lemonade and paper cups,
and there is one for a rented tent that must have been enormous. The photos show long tables in
rows and lamps in the trees. It looks lovely, but also like a lot of carrying. By the way, the
evening is on Saturday 21 June, as every year on the weekend of the longest day. How do people
usually arrange the seats so that strangers start to talk with each other?

I called the town hall this morning. The man there was friendly and spoke very slowly. He said
that the application for the permit has to be on his desk by 14 March, and that he is away in the
week before, so nobody should count on a last-minute favour. There is a form with two pages and a
sketch of the place. What does one draw on such a sketch?

I see. My drawing is terrible, but my nephew studies architecture and owes me for a whole summer
of piano lessons. He can do the sketch. In the meantime I thought about the weather. Last year it
rained on almost every weekend in June and people still talk about the flooded football pitch. Is
a tent enough, or should there be another plan for a really wet day?

The treasurer of the village club answered my letter. We have 4,350 euros for everything, and he
underlined the word everything twice. He would like to see a list of the costs, nothing fancy,
before I sign anything. I am a nurse, not an accountant, so tell me please how you would split
such a sum between food, drinks, music, decoration and the things that one forgets.

That helps. I made a table on the kitchen wall with coloured paper. My cat thinks that it is a
toy, so the drinks have moved to the fridge door. What I cannot judge is how much people drink on
a warm evening. The old receipts are no help, because they do not say how many guests came. Is
there a rule of thumb that caterers use for water, juice and beer?

Something nice happened. I put a note up in the bakery and asked for help, and by now 27
volunteers have written their names on it, among them the whole brass section of the fire brigade
and two teenagers who want to do the lights. I did not expect that and now I feel a bit like a
general. How do I give them tasks without offending anybody?

I will try that with small teams. The old lady from number nine wants to lead the kitchen team and
nobody dares to say anything against it, which is fine, as she cooked for a ship's crew for half
of her life. She asked what she should cook. I said soup, she said in summer, and then we both
laughed. My husband Tomas eats no meat, and he is not the only one here. Do you know cold dishes
that can be made the day before?

We tried the cold cucumber soup yesterday. It was good, although my brother poured half a bottle
of vinegar into it and claimed that this is how it is done in the south. The bread was better. The
baker offers us a discount of 15 percent if we order a week ahead and fetch it ourselves with a
van. Would you take white bread, dark bread or a mixture for a mixed crowd?

Now something technical. The electrician looked at the old line behind the meadow. He says that we
must not take more than 3,600 watts from it, otherwise the fuse in the pump house goes and the
cows have no water. The teenagers already dream of a light show. What uses the most power at such
an evening, and where could we save without sitting in the dark?

Lamps with batteries, of course, that is simple. I ordered a box of them to try. They came in
three colours and my cat was delighted again. The teenagers were not, they wanted something that
moves with the music. I told them that the moon moves as well. How would you hang lamps in old
apple trees so that no branch is hurt and nobody needs a crane?

About the music: the mayor suggested a man who plays records and brings his own loudspeakers. I
told him that I prefer live music to a disc jockey, even if it is a bit out of tune, because
people come closer and the children can see how an instrument works. The brass section was very
pleased. What is a good order for the evening, with speeches, food, music and dancing?

That sounds right to me. The mayor wants to speak for half an hour, and the priest wants to speak
after him. I fear that the soup will be warm and the people cold by then. My plan is to give them
a microphone whose battery is nearly empty. But seriously, nobody may speak for longer than ten
minutes. How does one tell important people in a kind way that they have to be short?

I had a small quarrel with the caterer for the drinks. He wanted a list of everybody who helps,
for his advertising, I think. So this is a rule for all letters that you write for me: never give
the phone numbers of the helpers to a company. They trusted me with them. Could you suggest a
polite sentence with which I can refuse and still get the cheap lemonade?

He accepted it without a word and even sent a crate of apple juice for the children. People are
strange. Today I went to the school, the church and the fire station, and together they lend us 38
tables. Some of them wobble, and one has a heart with initials carved into it that half of the
village can explain. How do I transport heavy tables over a meadow without ruining the grass?

A hay cart, what a good idea, the farmer next door has one and his horse is bored anyway. The
children will love it. My nephew has finished the sketch by the way. It shows every tree and even
the bench where my grandparents met. He forgot the toilets, though. How many does one need, and
how far should they be from the place where people eat?

There were long discussions at the club last night about the place, with the meadow, the school
yard and the old mill. In the end we decided to hold it in the Lindqvist barn, with the doors open
to the orchard, because it has a roof and a floor for dancing. The owner only asks that we sweep
it afterwards. What should I check in an old building before so many people come?

I walked through it with the fire brigade. They were pleased with the two wide doors and less
pleased with the straw in the loft, which will go to the horses. Someone will stand there with a
bucket all the same. It smells of summer in there. Do you have an idea how to make a big dark room
friendly with little money and many willing hands?

Ribbons and old bed sheets, I like that. The sewing group has taken it over and banned me from the
room until it is done. So I have time for the invitations. In the past they were printed on yellow
paper and put into every letter box by the schoolchildren. Should an invitation be funny or
formal, if both the bishop and the football team are to come?

I wrote three versions and read them to my cat, who left during the formal one. The funny one is
now at the printer's. He asked whether we also want posters, and I said that everybody here knows
everything anyway. But there are the new families by the river. How can one make people feel
welcome who have only just arrived and know nobody?

A table where each family brings a dish from home would be wonderful. I met a woman from there in
the shop, she laughed and said that she would need a very large pot. We agreed that each dish gets
a little card that says what is in it. My daughter will write the cards because hers is the only
handwriting that anyone can read. What belongs on such a card?

Good. Another small thing: the children. There will be many of them, and after two hours of
speeches and soup they will set fire to something. The teacher offered to hold a treasure hunt in
the orchard, as long as somebody hides the treasure where the goats cannot eat it. What could a
treasure be that costs nearly nothing and lasts for longer than sweets do?

Painted stones, and each is a wish. That is lovely, the teacher was moved to tears, though she has
hay fever as well. Now I worry about the end of the evening. Nobody likes to clean up at night,
and in the morning all are asleep. How have others solved that? I do not want to be the last one
there with a broom, as I was at my own wedding.

A breakfast for those who sweep, with the rest of the bread, will bring the whole brass section
back, I am sure. The list on the wall is almost full now, and the cat has lost interest. I slept
well for the first time in a week. What do people forget most often who organise something for the
first time? Be honest, I still have time to mend it.

Plasters, safety pins and somebody who knows where the main switch is. I wrote it down. The old
organiser sent me a postcard from the coast today. She says that it always works out and that I
should dance at least once before midnight. What could I send her as a thank-you, something that
fits into an envelope and smells a little of our village?

Dried apple blossom, how beautiful, there is some in the attic. I am nearly done with my
questions. The club would like to have a short text for the newspaper, from me, with a photo. I
look like a frightened owl in photos, but so be it. How long should the text be, and what does a
reader who has never been here want to know?

Then let us finish this. Please look back at everything that I told you about the evening, about
me and about what is allowed and what is not, and write the text for the newspaper together with a
short list of the things that I must not forget. Use what I said, and do not invent anything.
Thank you for your patience with me in all these weeks.
"""

USER: Final = tuple(" ".join(turn.split()) for turn in _TALK.split("\n\n"))
"""What the user says, turn by turn."""
