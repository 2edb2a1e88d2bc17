"""What every keeper of slots must do, whoever keeps them: one suite for all."""

from __future__ import annotations

import asyncio

import pytest

from agent_lab.application.ports import SlotKeeper
from agent_lab.domain.admission import MAX_CAPACITY, Lease, Refused, Room, Waits
from tests.application.helpers_line import KEEPERS, LEASE, Ear, Hand, ticket

ONE = Room(capacity=1, waiting=3)


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def ear() -> Ear:
    return Ear()


@pytest.fixture(params=KEEPERS)
def keeper(request: pytest.FixtureRequest, hand: Hand, ear: Ear) -> SlotKeeper:
    made = KEEPERS[request.param](hand)
    made.listen(ear)
    return made


async def holding(keeper: SlotKeeper, *names: str, room: Room = ONE) -> list[Lease]:
    """Let these in, or into the line; the leases of those who are in."""
    answers = [await keeper.ask(ticket(name), room) for name in names]
    return [answer for answer in answers if isinstance(answer, Lease)]


async def look(keeper: SlotKeeper) -> tuple[list[str], list[str]]:
    held, waiting, _ = await keeper.look("a")
    return [lease.ticket for lease in held], waiting


@pytest.mark.scenario("S1")
async def test_of_two_at_once_one_is_let_in_and_the_other_is_first_in_line(
    keeper: SlotKeeper,
) -> None:
    answers = await asyncio.gather(
        keeper.ask(ticket("A"), ONE),
        keeper.ask(ticket("B"), ONE),
    )

    assert answers == [Lease("a", "A", 1), Waits(1)]


@pytest.mark.scenario("S2")
async def test_a_race_for_the_last_place_never_makes_the_line_longer(
    keeper: SlotKeeper, ear: Ear
) -> None:
    await holding(keeper, "A", "B", "C")
    depths: list[int] = []

    async def enqueue(name: str) -> object:
        answer = await keeper.ask(ticket(name), ONE)
        depths.append(len(ear.lines["a"]))
        return answer

    answers = await asyncio.gather(*map(enqueue, "VWXYZ"))

    assert answers == [Waits(3)] + [Refused("in_memory_full", 1, 3)] * 4
    assert max(depths) == 3


async def test_who_may_not_wait_is_refused_while_somebody_runs(keeper: SlotKeeper) -> None:
    await holding(keeper, "A")

    answer = await keeper.ask(ticket("B"), ONE, may_wait=False)

    assert answer == Refused("busy", 1, 0)
    assert await look(keeper) == (["A"], [])


async def test_who_asks_twice_has_one_place(keeper: SlotKeeper) -> None:
    (lease,) = await holding(keeper, "A", "B")

    assert await keeper.ask(ticket("A"), ONE) == lease
    assert await keeper.ask(ticket("B"), ONE) == Waits(1)
    assert await look(keeper) == (["A"], ["B"])


@pytest.mark.scenario("S4")
async def test_a_slot_given_back_twice_is_given_on_once(keeper: SlotKeeper, ear: Ear) -> None:
    (lease,) = await holding(keeper, "A", "B", "C")

    assert [await keeper.release(lease), await keeper.release(lease)] == [True, False]
    assert ear.tickets == ["B"]
    assert await look(keeper) == (["B"], ["C"])


async def test_a_hand_over_leaves_no_moment_in_which_a_third_slips_in(
    keeper: SlotKeeper, ear: Ear
) -> None:
    (lease,) = await holding(keeper, "A", "B")

    _, third = await asyncio.gather(keeper.release(lease), keeper.ask(ticket("C"), ONE))

    assert ear.tickets == ["B"]
    assert third == Waits(1)


@pytest.mark.scenario("S5")
async def test_who_comes_back_after_his_lease_ran_out_is_stale_and_frees_nobody(
    keeper: SlotKeeper, hand: Hand, ear: Ear
) -> None:
    (lease,) = await holding(keeper, "A", "B", "C")
    hand.at = LEASE

    assert await keeper.expire() == [lease]
    assert await keeper.release(lease) is False
    assert ear.tickets == ["B"]
    assert await look(keeper) == (["B"], ["C"])


async def test_a_lease_that_is_renewed_does_not_run_out(keeper: SlotKeeper, hand: Hand) -> None:
    (lease,) = await holding(keeper, "A", "B")
    hand.at = LEASE - 1
    assert await keeper.renew(lease)
    hand.at = LEASE + 1

    assert await keeper.expire() == []
    assert await look(keeper) == (["A"], ["B"])


@pytest.mark.scenario("S7")
async def test_a_slot_that_was_taken_is_not_brought_back_by_renewing(
    keeper: SlotKeeper, hand: Hand
) -> None:
    (lease,) = await holding(keeper, "A", "B")
    hand.at = LEASE
    await keeper.expire()

    assert await keeper.renew(lease) is False
    assert await look(keeper) == (["B"], [])


@pytest.mark.scenario("S7")
async def test_a_ticket_that_is_in_again_is_not_renewed_by_its_old_token(
    keeper: SlotKeeper, hand: Hand
) -> None:
    (lease,) = await holding(keeper, "A")
    hand.at = LEASE
    await keeper.expire()
    (again,) = await holding(keeper, "A")

    assert again.token > lease.token
    assert await keeper.renew(lease) is False
    assert await keeper.release(lease) is False
    assert await look(keeper) == (["A"], [])


@pytest.mark.scenario("S9")
async def test_a_smaller_capacity_ends_nobody_and_lets_nobody_in_until_there_is_room(
    keeper: SlotKeeper, ear: Ear
) -> None:
    leases = await holding(keeper, *"ABCDEF", room=Room(5, 3))
    await keeper.resize("a", Room(2, 3))

    assert await look(keeper) == (list("ABCDE"), ["F"])
    for lease in leases[:3]:
        assert await keeper.release(lease)
    assert ear.tickets == []
    await keeper.release(leases[3])
    assert ear.tickets == ["F"]


@pytest.mark.scenario("S9")
@pytest.mark.parametrize(("said", "meant"), [(0, 1), (-5, 1), (999, MAX_CAPACITY)])
async def test_a_capacity_beyond_reason_is_kept_as_said_and_counts_as_the_nearest(
    keeper: SlotKeeper, said: int, meant: int
) -> None:
    room = Room(said, 3)
    leases = await holding(keeper, *map(str, range(MAX_CAPACITY + 1)), room=room)

    assert len(leases) == meant
    assert (await keeper.look("a"))[2] == room


async def test_a_larger_capacity_lets_the_next_in_at_once(keeper: SlotKeeper, ear: Ear) -> None:
    await holding(keeper, *"ABCD")
    await keeper.resize("a", Room(3, 3))

    assert ear.tickets == ["B", "C"]
    assert await look(keeper) == (list("ABC"), ["D"])


@pytest.mark.scenario("S14")
async def test_who_leaves_the_line_moves_the_others_up(keeper: SlotKeeper, ear: Ear) -> None:
    (lease,) = await holding(keeper, *"ABCD")

    assert await keeper.leave("a", "B")
    assert ear.lines["a"] == ["C", "D"]
    assert not await keeper.leave("a", "B")
    await keeper.release(lease)
    assert ear.tickets == ["C"]


@pytest.mark.scenario("S17")
async def test_a_listener_that_raises_costs_no_slot_and_is_counted(
    keeper: SlotKeeper, ear: Ear
) -> None:
    (lease,) = await holding(keeper, *"ABC")
    ear.fails = 1
    await keeper.release(lease)

    assert ear.tickets == ["C"]
    assert await look(keeper) == (["C"], [])
    assert keeper.faults == 1


@pytest.mark.scenario("S22")
async def test_clearing_sends_away_who_waits_and_leaves_who_runs(
    keeper: SlotKeeper, ear: Ear
) -> None:
    await holding(keeper, *"ABC")

    assert await keeper.clear("a") == ["B", "C"]
    assert await look(keeper) == (["A"], [])
    assert ear.lines["a"] == []
    assert await keeper.clear("a") == []


@pytest.mark.scenario("S12")
async def test_a_slot_that_was_seized_is_the_next_ones_and_its_old_holder_is_stale(
    keeper: SlotKeeper, ear: Ear
) -> None:
    (lease,) = await holding(keeper, *"ABC")

    assert await keeper.seize("a") == [lease]
    assert ear.tickets == ["B"]
    assert await keeper.release(lease) is False
    assert await look(keeper) == (["B"], ["C"])


async def test_users_go_before_agents_and_these_before_schedules(keeper: SlotKeeper) -> None:
    await holding(keeper, "A")
    await keeper.ask(ticket("schedule", priority="schedule"), ONE)
    await keeper.ask(ticket("agent", at=1, priority="agent"), ONE)
    await keeper.ask(ticket("user", at=2), ONE)

    assert await look(keeper) == (["A"], ["user", "agent", "schedule"])


@pytest.mark.scenario("S23")
async def test_a_schedule_starts_however_many_users_keep_coming(
    keeper: SlotKeeper, hand: Hand, ear: Ear
) -> None:
    await holding(keeper, "first")
    running = (await keeper.look("a"))[0][0]
    await keeper.ask(ticket("nightly", priority="schedule"), ONE)
    for second in range(0, 100, 10):  # a user each ten seconds, and a run takes as long
        hand.at = float(second)
        await keeper.renew(running)
        await keeper.ask(ticket(f"user {second}", at=hand.at), ONE)
        await keeper.release(running)
        running = (await keeper.look("a"))[0][0]

    assert ear.tickets.index("nightly") <= 4, "40 s of waiting make up for two ranks"


async def test_a_line_that_nobody_asked_for_is_empty(keeper: SlotKeeper) -> None:
    assert await keeper.look("a") == ([], [], None)
    assert not await keeper.leave("a", "A")
    assert not await keeper.release(Lease("a", "A", 1))
    assert not await keeper.renew(Lease("a", "A", 1))
    assert await keeper.seize("a") == await keeper.clear("a") == []
