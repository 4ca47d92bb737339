-- Replicas look at a schedule again.
local function tell_change(name)
  redis.pcall('PUBLISH', wake, type_name .. ' cron ' .. name)
end

-- 15 gone, 17 a key of it is of a wrong type.
local function absence(known)
  return known == false and 17 or known == nil and 15
end

-- The same, or 18 as it is moving to another type, which takes along what was said until then.
local function closed(known)
  return absence(known) or known.moved and 18
end
