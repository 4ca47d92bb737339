#!lua flags=allow-oom
-- Cancels a task that has not ended. One that runs is marked, and asked to stop.
--
-- KEYS[1..6], ARGV[1..6]: see include/type.lua
-- KEYS[7] task  hash of the task
-- ARGV[7] id    id of the task
--
-- Returns {0, now µs, code, state}: 1 cancelled, 2 cancelling (it runs), 3 refused by the state
--         {-1, now µs} too late
--
-- @include type guard events live load pack ends state anew back ready stop
local task, id = KEYS[7], ARGV[7]

local state = state_of(id)
local code = stop(task, id, state)
write_events()
if code == 2 then
  tell_to_stop(id)
end
return {0, now_us, code, state}
