CREATE TABLE `pieces` (
  `id` int(11) NOT NULL,
  `piece` longblob,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
